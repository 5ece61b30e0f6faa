"""The complete lists from which the operator begins: before its first decision, it knows all that there is."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import structlog

from gpusharing.controller import api_server
from gpusharing.controller.store import Store
from gpusharing.kube.kinds import Kind
from gpusharing.kube.retry import NotYetError
from gpusharing.kube.transport import Api

log = structlog.get_logger(__name__)


async def prime(api: Api, store: Store, watched: Collection[Kind[Any]]) -> Mapping[Kind[Any], str]:
    """The versions of the lists, from which watches go on."""
    # While the API server makes one list, we read another.
    outcomes = await asyncio.gather(*(_prime(api, store, kind) for kind in watched), return_exceptions=True)
    versions: dict[Kind[Any], str] = {}
    for kind, outcome in zip(watched, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            raise outcome
        versions[kind] = outcome
    log.info("listed", **{kind.plural: store.count(kind) for kind in watched})
    return versions


async def _prime(api: Api, store: Store, kind: Kind[Any]) -> str:
    version = await take_in(api, store, kind)
    await _require_discovery(api, kind)
    return version


async def take_in(api: Api, store: Store, kind: Kind[Any]) -> str:
    """All objects of the kind, and no others. The version of the list."""
    uids: set[str] = set()
    version = ""
    async for page in api.pages(kind.as_json()):
        for item in page.items:
            uids.add(item["metadata"]["uid"])
            store.seen(kind, item)
        version = page.resource_version
        del page
    store.only(kind, uids, as_of=version)
    return version


async def _require_discovery(api: Api, kind: Kind[Any]) -> None:
    """A new definition is served a moment before it is told of, and Kopf asks only once what there is."""
    if not await api_server.is_served(api, kind):
        raise NotYetError(f"{kind.api_version} has no {kind.plural} yet")
