"""The guards, each asked for by its name: the operator has no business with other admission policies."""

from collections.abc import Coroutine
from typing import Any, Final

import structlog

from gpusharing.controller.store import Store
from gpusharing.core.guards.upkeep import KEPT
from gpusharing.kube.kinds import ADMISSION_POLICIES
from gpusharing.kube.reflector import Reflector
from gpusharing.kube.transport import Api, ApiError

log = structlog.get_logger(__name__)

_ABSENT: Final = {403, 404}


async def prime(api: Api, store: Store) -> None:
    for name in KEPT:
        try:
            guard = await api.get(ADMISSION_POLICIES, name)
        except ApiError as error:
            # The policies that need it will say so; nobody else has to wait for it.
            if error.status not in _ABSENT:
                raise
            log.info("no guard", name=name, error=str(error))
        else:
            store.found(ADMISSION_POLICIES, name, guard)


def following(api: Api, store: Store) -> list[Coroutine[Any, Any, None]]:
    return [_follow(api, store, name) for name in KEPT]


async def _follow(api: Api, store: Store, name: str) -> None:
    reflector = Reflector(
        api,
        ADMISSION_POLICIES,
        on_change=lambda: store.found(ADMISSION_POLICIES, name, reflector.get(name)),
        field_selector=f"metadata.name={name}",
    )
    await reflector.run()
