"""The guards, each asked for by its name: the operator has no business with other admission policies."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import structlog

from gpusharing.controller.watching.store import Store
from gpusharing.core.cluster.guards.closing import CLOSING
from gpusharing.core.cluster.guards.namespaces import NAMESPACES
from gpusharing.core.cluster.guards.upkeep import REQUIRED
from gpusharing.kube.kinds import ADMISSION_BINDINGS, ADMISSION_POLICIES, Kind
from gpusharing.kube.reflector import Reflector
from gpusharing.kube.transport import Api, ApiError
from gpusharing.kube.watches import Watches

log = structlog.get_logger(__name__)

KINDS: Final[tuple[Kind[Any], ...]] = (ADMISSION_POLICIES, ADMISSION_BINDINGS)

# Each binding has the name of the guard that it puts in force.
_NAMES: Final = {
    ADMISSION_POLICIES: (*REQUIRED, CLOSING, NAMESPACES),
    ADMISSION_BINDINGS: (*REQUIRED, CLOSING),
}
_ABSENT: Final = {403, 404}


async def prime(api: Api, store: Store) -> None:
    # At once: an API server may take seconds for each answer.
    outcomes = await asyncio.gather(*(_read(api, store, kind, name) for kind, name in _all()), return_exceptions=True)
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


async def _read(api: Api, store: Store, kind: Kind[Any], name: str) -> None:
    try:
        found = await api.get(kind, name)
    except ApiError as error:
        # The policies that need it will say so; nobody else has to wait for it.
        if error.status not in _ABSENT:
            raise
        log.info("guard missing", kind=kind.kind, name=name, error=str(error))
    else:
        store.apply_named(kind, name, found)


def following(api: Api, store: Store, watches: Watches) -> list[Coroutine[Any, Any, None]]:
    return [_follow(api, store, kind, name, watches) for kind, name in _all()]


def _all() -> list[tuple[Kind[Any], str]]:
    return [(kind, name) for kind in KINDS for name in _NAMES[kind]]


async def _follow(api: Api, store: Store, kind: Kind[Any], name: str, watches: Watches) -> None:
    reflector = Reflector(
        api,
        kind,
        watches=watches,
        on_change=lambda: store.apply_named(kind, name, reflector.get(name)),
        field_selector=f"metadata.name={name}",
    )
    await reflector.run()
