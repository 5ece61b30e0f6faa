"""The complete lists from which the operator begins: before its first decision, it knows all that there is."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import structlog

from gpusharing.controller.watching.store import Store
from gpusharing.kube.kinds import Kind
from gpusharing.kube.transport import Api, ApiError, UnreadableError

log = structlog.get_logger(__name__)


async def prime(api: Api, store: Store, watched: Collection[Kind[Any]]) -> Mapping[Kind[Any], str]:
    """The versions of the lists, from which watches go on."""
    # While the API server makes one list, we read another.
    outcomes = await asyncio.gather(*(take_in(api, store, kind) for kind in watched), return_exceptions=True)
    versions: dict[Kind[Any], str] = {}
    for kind, outcome in zip(watched, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            raise outcome
        versions[kind] = outcome
    log.info("objects listed", **{kind.plural: store.count(kind) for kind in watched})
    return versions


async def take_in(api: Api, store: Store, kind: Kind[Any]) -> str:
    """All objects of the kind, and no others. The version of the list."""
    before = store.known(kind)
    uids: set[str] = set()
    version = ""
    async for page in api.pages(kind.as_json()):
        for item in page.items:
            uids.add(item["metadata"]["uid"])
            store.apply(kind, item)
        version = page.resource_version
        del page
    store.remove_unlisted(kind, uids, as_of=version, before=before)
    store.mark_listed(kind, version)
    return version


async def read_again(api: Api, store: Store, kind: Kind[Any], name: str, namespace: str = "") -> None:
    """One object as it is, whatever is known of it: where a write was refused that should not have been, say."""
    before = store.known(kind)
    value: Mapping[str, Any] | None = None
    try:
        value = await api.get(kind.as_json(), name, namespace)
    except UnreadableError as error:
        store.unreadables.skip(kind.kind, "/".join(filter(None, (namespace, name))), error)
        return
    except ApiError as error:
        if error.status != 404:
            raise
    store.apply_answer(kind, (namespace, name), value, before=before)
