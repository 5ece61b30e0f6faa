"""A local copy of all objects of one kind that match a selector: listed, watched, and listed again when in doubt."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Generic, TypeVar

import pydantic
import structlog

from gpusharing.api.meta import Key, ObjectMeta, key_of, metadata_of
from gpusharing.kube.clock import seconds_since_boot
from gpusharing.kube.history import HistoryWentBackError
from gpusharing.kube.kinds import Kind
from gpusharing.kube.retry import Backoff
from gpusharing.kube.transport import Api, ApiError, ExpiredError, UnreachableError
from gpusharing.kube.unreadable import display_name
from gpusharing.kube.watches import Watch, Watches

T = TypeVar("T")

log = structlog.get_logger(__name__)

_BACKOFF: Final = Backoff()


async def follow(
    api: Api,
    kind: Kind[Any],
    version: str = "",
    *,
    watch: Watch,
    lists: Callable[[], Awaitable[str]],
    takes_in: Callable[[str, Any], None],
    field_selector: str = "",
) -> None:
    """All events (type, object as JSON) from a version on, until HistoryWentBackError. `lists` takes in what there is,
    and gives its version: where there is none to go on from, at the beginning or after that."""
    delays = iter(_BACKOFF)
    while True:
        began = seconds_since_boot()
        try:
            if not version:
                version = await lists()
            else:
                # From a version of the future, the watch would be silent.
                await api.confirm_history(kind, field_selector=field_selector)
            async for event, value in api.watch(kind, version, field_selector=field_selector, on_open=watch.works):
                delays = iter(_BACKOFF)
                version = value["metadata"]["resourceVersion"]
                api.history.saw(kind.path(), version)
                try:
                    takes_in(event, value)
                except pydantic.ValidationError as error:
                    api.unreadables.skip(kind.kind, display_name(value), error)
        except ExpiredError:
            version = ""
        except HistoryWentBackError:
            raise
        except (ApiError, UnreachableError) as error:
            watch.fails(str(error))
            version = version if isinstance(error, UnreachableError) else ""
        except Exception as error:
            # Whatever one kind's watch meets, the rest of the program has its own work.
            log.exception("watch failed", kind=kind.kind)
            watch.fails(f"{type(error).__name__}: {error}")
            version = ""
        if seconds_since_boot() - began > _BACKOFF.last:
            delays = iter(_BACKOFF)
        # Also after a watch that ended well: a server that ends each at once must not be asked without a pause.
        await asyncio.sleep(next(delays))


class Reflector(Generic[T]):
    def __init__(
        self, api: Api, kind: Kind[T], *, watches: Watches, on_change: Callable[[], None], field_selector: str = ""
    ) -> None:
        self._api = api
        self._kind = kind
        self._watch = watches.add(kind)
        self._on_change = on_change
        self._field_selector = field_selector
        self._objects: dict[Key, T] = {}
        self.synced = asyncio.Event()

    @property
    def objects(self) -> list[T]:
        return list(self._objects.values())

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._objects.get((namespace, name))

    def put(self, value: T) -> None:
        """Takes in what a write of our own returned, so that nothing is decided on what it replaced."""
        self._api.history.saw(self._kind.path(), metadata_of(value).resource_version)
        self._put(value)

    def drop(self, value: T) -> None:
        """Forgets what a delete of our own removed."""
        known = self._objects.get(key_of(value))
        if known is not None and metadata_of(known).uid == metadata_of(value).uid:
            del self._objects[key_of(value)]

    @asynccontextmanager
    async def believing(self, name: str, namespace: str = "") -> AsyncIterator[None]:
        """Around a write that is decided on what is known of this object. Where the API server refuses it because the
        object is another one (404, 409), what it is is read, and counts."""
        try:
            yield
        except ApiError as error:
            if error.status in {404, 409}:
                await self.read_again(name, namespace)
            raise

    async def read_again(self, name: str, namespace: str = "") -> None:
        """Takes in what there is, whatever was known of it."""
        known = self.get(name, namespace)
        value: T | None = None
        try:
            value = await self._api.get(self._kind, name, namespace)
        except ApiError as error:
            if error.status != 404:
                raise
        if self.get(name, namespace) is not known:
            # The watch has told meanwhile.
            return
        if value is None:
            self._objects.pop((namespace, name), None)
        else:
            self._objects[key_of(value)] = value

    async def run(self) -> None:
        """Until HistoryWentBackError."""
        await follow(
            self._api,
            self._kind,
            watch=self._watch,
            lists=self._list,
            takes_in=self._apply,
            field_selector=self._field_selector,
        )

    async def run_through_restores(self) -> None:
        """Without end: when history goes back, everything is listed anew."""
        while True:
            try:
                await self.run()
            except HistoryWentBackError as error:
                log.error("history went back", kind=self._kind.kind, error=f"{error}; all objects are listed again")  # noqa: TRY400

    async def _list(self) -> str:
        before = dict(self._objects)
        listed: list[T] = []
        version = ""
        async for page in self._api.pages(self._kind.as_json(), field_selector=self._field_selector):
            listed += self._readable(page.items)
            version = page.resource_version
        came = [value for key, value in self._objects.items() if before.get(key) is not value]
        self._objects = {key_of(item): item for item in listed}
        for value in came:
            # What a write of our own returned while the list was made.
            if int(metadata_of(value).resource_version or 0) > int(version):
                self._put(value)
        self.synced.set()
        self._on_change()
        return version

    def _readable(self, values: Iterable[Any]) -> Iterator[T]:
        """In the place of one that cannot be read, what is known of it: it must not look like a deleted one."""
        for value in values:
            try:
                yield self._kind.from_json(value)
            except pydantic.ValidationError as error:
                self._api.unreadables.skip(self._kind.kind, display_name(value), error)
                metadata = value["metadata"]
                known = self.get(metadata["name"], metadata.get("namespace", ""))
                if known is not None and metadata_of(known).uid == metadata["uid"]:
                    yield known

    def _apply(self, event: str, value: Any) -> None:
        if event == "BOOKMARK":
            return
        # The watch may be behind what our own writes returned.
        if event == "DELETED":
            self.drop(self._kind.from_json(value))
        elif not self._is_known(value["metadata"]):
            self._put(self._kind.from_json(value))
        # Also of what our own writes returned: who has written it may have waited for that.
        self._on_change()

    def _is_known(self, metadata: Mapping[str, Any]) -> bool:
        """Whether it is what a write of our own returned: it may be large, and need not be read again."""
        known = self.get(metadata["name"], metadata.get("namespace", ""))
        if known is None:
            return False
        meta = metadata_of(known)
        return (meta.uid, meta.resource_version) == (metadata["uid"], metadata["resourceVersion"])

    def _put(self, value: T) -> None:
        known = self._objects.get(key_of(value))
        if known is None or not _is_newer(metadata_of(known), metadata_of(value)):
            self._objects[key_of(value)] = value


def _is_newer(known: ObjectMeta, other: ObjectMeta) -> bool:
    # Kubernetes promises (since 1.35) that versions of one resource compare as numbers.
    return int(known.resource_version or 0) > int(other.resource_version or 0)
