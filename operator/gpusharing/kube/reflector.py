"""A local copy of all objects of one kind that match a selector: listed, watched, and listed again when in doubt."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

import structlog

from gpusharing.api.meta import ObjectMeta
from gpusharing.kube.kinds import Kind
from gpusharing.kube.transport import Api, ApiError, ExpiredError, UnreachableError

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
                takes_in(event, value)
        except ExpiredError:
            version = ""
        except (ApiError, UnreachableError, ValueError) as error:
            # ValueError: an object that this version of ours does not understand, or a line that is too long.
            log.warning("watch broken", kind=kind.kind, error=str(error), retry_in=backoff)
            version = version if isinstance(error, UnreachableError) else ""
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
        items, version = await self._api.list(self._kind, field_selector=self._field_selector)
        # What a write of our own returned meanwhile is newer than the list.
        written = {
            key: value for key, value in self._objects.items() if int(_meta(value).resource_version or 0) > int(version)
        }
        self._objects = {_key(item): item for item in items} | written
        self.synced.set()
        self._on_change()
        return version

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
