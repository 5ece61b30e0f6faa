"""What Kopf calls: events of all kinds into the store, sessions for its own requests, and the end."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import kopf

from gpusharing.controller.watching.relists import Relists
from gpusharing.controller.watching.store import Store
from gpusharing.kube import kinds
from gpusharing.kube.credentials import Credentials
from gpusharing.kube.kinds import Kind
from gpusharing.kube.transport import open_session

WATCHED: Final[tuple[Kind[Any], ...]] = (
    kinds.SHARING_POLICIES,
    kinds.NODE_SHARINGS,
    kinds.RESOURCE_CLAIMS,
    kinds.DEVICE_CLASSES,
    kinds.NODES,
    kinds.NAMESPACES,
    kinds.RESOURCE_QUOTAS,
)

_LOGIN_INTERVAL: Final = 1.0


def registry(
    watched: Iterable[Kind[Any]],
    store: Store,
    credentials: Credentials,
    relists: Relists,
    *,
    on_stop: Callable[[], Awaitable[None]],
) -> kopf.OperatorRegistry:
    result = kopf.OperatorRegistry()
    kopf.on.login(registry=result, id="login")(Logins(credentials, relists).login)
    for kind in watched:
        takes_in = taking_in(store, kind)
        kopf.on.event(kind.group, kind.version, kind.plural, registry=result, id=kind.plural, when=takes_in)(_never)

    # Kopf takes every task that began after its own for one of its own and waits for them at the end: ours go first.
    @kopf.on.cleanup(registry=result, id="stop")
    async def stop(**_: Any) -> None:
        await on_stop()

    return result


def taking_in(store: Store, kind: Kind[Any]) -> Callable[..., bool]:
    """A filter that takes the event in. Kopf asks it before it makes ready to call a handler, which is a sixth of what
    an event costs, and not needed for a look at an object.
    """

    def takes_in(*, event: kopf.RawEvent, **_: Any) -> bool:
        store.heard(kind, event["type"], event["object"])
        return False

    return takes_in


async def _never(**_: Any) -> None:
    """The handler that the filters stand before."""


class Logins:
    """A session of its own for each login: Kopf closes the one it has when the API server refuses it, and at exit."""

    def __init__(self, credentials: Credentials, relists: Relists) -> None:
        self._credentials = credentials
        self._relists = relists
        self._last = float("-inf")

    async def login(self, **_: Any) -> kopf.AiohttpSession:
        # Refused at once and again, Kopf would come back without a pause.
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._last + _LOGIN_INTERVAL - loop.time())
        self._last = loop.time()
        session = open_session(self._credentials, self._relists.middleware)
        return kopf.AiohttpSession(server=self._credentials.server, aiohttp_session=session)
