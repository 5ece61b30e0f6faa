"""Complete lists beside Kopf's watches: before the first decision, and for the deletions that Kopf does not see."""

import dataclasses
from collections.abc import Collection
from functools import partial
from typing import Any

import structlog

from gpusharing.controller.patience import NotYetError, patiently
from gpusharing.controller.relists import Relists
from gpusharing.controller.store import Store
from gpusharing.kube.kinds import Kind
from gpusharing.kube.transport import Api

log = structlog.get_logger(__name__)


async def prime(api: Api, store: Store, watched: Collection[Kind[Any]]) -> None:
    for kind in watched:
        async for page in api.pages(_plain(kind)):
            for item in page.items:
                store.seen(kind, item)
        await _require_discovery(api, kind)
    log.info("listed", **{kind.plural: store.count(kind) for kind in watched})


async def audit(api: Api, store: Store, relists: Relists) -> None:
    """Without end: each list of Kopf's is followed by one of ours, for what has gone unseen."""
    while True:
        kind = await relists.next()
        await patiently(partial(forget_deleted, api, store, kind))


async def forget_deleted(api: Api, store: Store, kind: Kind[Any]) -> None:
    uids: set[str] = set()
    version = ""
    async for page in api.pages(_plain(kind)):
        uids |= {item["metadata"]["uid"] for item in page.items}
        version = page.resource_version
    store.only(kind, uids, as_of=version)


async def _require_discovery(api: Api, kind: Kind[Any]) -> None:
    """A new definition is served a moment before it is told of, and Kopf asks only once what there is."""
    discovery = await api.get_json(kind.path().rpartition("/")[0])
    if kind.plural not in {resource["name"] for resource in discovery["resources"]}:
        raise NotYetError(f"{kind.api_version} has no {kind.plural} yet")


def _plain(kind: Kind[Any]) -> Kind[dict[str, Any]]:
    """As JSON: an object that cannot be read must not take its page with it."""
    return dataclasses.replace(kind, model=dict[str, Any])
