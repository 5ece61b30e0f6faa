"""A local copy of all objects of one kind that match a selector: listed, watched, and listed again when in doubt."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

import pydantic
import structlog

from gpusharing.api.meta import ObjectMeta
from gpusharing.kube.kinds import Kind
from gpusharing.kube.transport import Api, ApiError, ExpiredError, UnreachableError
from gpusharing.kube.unreadable import display_name

T = TypeVar("T")

log = structlog.get_logger(__name__)

_FIRST_BACKOFF: Final = 0.2
_LAST_BACKOFF: Final = 15.0


async def follow(
    api: Api,
    kind: Kind[Any],
    version: str = "",
    *,
    lists: Callable[[], Awaitable[str]],
    takes_in: Callable[[str, Any], None],
    field_selector: str = "",
) -> None:
    """Without end, all events (type, object as JSON) from a version on. `lists` takes in what there is, and gives its
    version: where there is none to go on from, at the beginning or after that."""
    backoff = _FIRST_BACKOFF
    while True:
        try:
            if not version:
                version = await lists()
            async for event, value in api.watch(kind, version, field_selector=field_selector):
                backoff = _FIRST_BACKOFF
                version = value["metadata"]["resourceVersion"]
                try:
                    takes_in(event, value)
                except pydantic.ValidationError as error:
                    api.unreadables.skip(kind.kind, display_name(value), error)
        except ExpiredError:
            version = ""
        except (ApiError, UnreachableError) as error:
            log.warning("watch broken", kind=kind.kind, error=str(error), retry_in=backoff)
            version = version if isinstance(error, UnreachableError) else ""
        except Exception:
            # Whatever one kind's watch meets, the rest of the program has its own work.
            log.exception("watch failed", kind=kind.kind, retry_in=backoff)
            version = ""
        # Also after a watch that ended well: a server that ends each at once must not be asked without a pause.
        await asyncio.sleep(backoff * random.uniform(0.5, 1.5))  # noqa: S311
        backoff = min(2 * backoff, _LAST_BACKOFF)


class Reflector(Generic[T]):
    def __init__(self, api: Api, kind: Kind[T], *, on_change: Callable[[], None], field_selector: str = "") -> None:
        self._api = api
        self._kind = kind
        self._on_change = on_change
        self._field_selector = field_selector
        self._objects: dict[tuple[str, str], T] = {}
        self.synced = asyncio.Event()

    @property
    def objects(self) -> list[T]:
        return list(self._objects.values())

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._objects.get((namespace, name))

    def put(self, value: T) -> None:
        """Takes in what a write of our own returned, so that nothing is decided on what it replaced."""
        known = self._objects.get(_key(value))
        if known is None or not _is_newer(_meta(known), _meta(value)):
            self._objects[_key(value)] = value

    def drop(self, value: T) -> None:
        """Forgets what a delete of our own removed."""
        known = self._objects.get(_key(value))
        if known is not None and _meta(known).uid == _meta(value).uid:
            del self._objects[_key(value)]

    async def run(self) -> None:
        await follow(self._api, self._kind, lists=self._list, takes_in=self._apply, field_selector=self._field_selector)

    async def _list(self) -> str:
        listed: list[T] = []
        version = ""
        async for page in self._api.pages(self._kind.as_json(), field_selector=self._field_selector):
            listed += self._readable(page.items)
            version = page.resource_version
        # What a write of our own returned meanwhile is newer than the list.
        written = {
            key: value for key, value in self._objects.items() if int(_meta(value).resource_version or 0) > int(version)
        }
        self._objects = {_key(item): item for item in listed} | written
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
                if known is not None and _meta(known).uid == metadata["uid"]:
                    yield known

    def _apply(self, event: str, value: Any) -> None:
        if event == "BOOKMARK":
            return
        item = self._kind.from_json(value)
        # The watch may be behind what our own writes returned.
        if event == "DELETED":
            self.drop(item)
        else:
            self.put(item)
        self._on_change()


def _meta(value: Any) -> ObjectMeta:
    metadata: ObjectMeta = value.metadata
    return metadata


def _key(value: Any) -> tuple[str, str]:
    return _meta(value).namespace, _meta(value).name


def _is_newer(known: ObjectMeta, other: ObjectMeta) -> bool:
    # Kubernetes promises (since 1.35) that versions of one resource compare as numbers.
    return int(known.resource_version or 0) > int(other.resource_version or 0)
