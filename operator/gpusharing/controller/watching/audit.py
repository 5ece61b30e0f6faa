"""What watches miss: found by lists that say which objects there are, and in which versions, and no more.

What may go wrong between the API server and the store is not known beforehand, hence the look now and then.
"""

import asyncio
import random
from collections.abc import Collection
from functools import partial
from typing import Any, Final

import structlog

from gpusharing.controller.watching.listing import read_again
from gpusharing.controller.watching.store import Store
from gpusharing.kube.kinds import Kind
from gpusharing.kube.retry import patiently
from gpusharing.kube.transport import Api

log = structlog.get_logger(__name__)

# Looking at ten thousand claims takes 0.15 to 0.2 s of the processor: less than a five-hundredth of a core.
_PERIOD: Final = 120.0
# A watch that works tells within a second.
_LATE: Final = 10.0
# There are few of them, unless somebody makes many.
_BETWEEN_READS: Final = 10.0
_AFTER_READ: Final = 0.1


async def now_and_then(api: Api, store: Store, watched: Collection[Kind[Any]]) -> None:
    """Without end: one kind after the other, spread over the period."""
    while True:
        for kind in watched:
            await asyncio.sleep(_PERIOD / len(watched) * random.uniform(0.5, 1.5))  # noqa: S311
            await patiently(partial(look, api, store, kind))


async def read_unlisted(api: Api, store: Store, watched: Collection[Kind[Any]]) -> None:
    """Without end: of objects without the label of their kind, no list and no watch tells whether they are there."""
    while True:
        await asyncio.sleep(_BETWEEN_READS)
        for kind in watched:
            for namespace, name in store.never_listed(kind):
                await patiently(partial(read_again, api, store, kind, name, namespace))
                await asyncio.sleep(_AFTER_READ)


async def look(api: Api, store: Store, kind: Kind[Any]) -> None:
    before = store.known(kind)
    listed, version = await api.identities(kind)
    store.remove_unlisted(kind, {identity.uid for identity in listed}, as_of=version, before=before)
    if store.find_outdated(kind, listed, before=before):
        await asyncio.sleep(_LATE)
        for missed in store.find_outdated(kind, listed, before=before):
            await read_again(api, store, kind, missed.name, missed.namespace)
            # What cannot be read has not been missed: the store has said so.
            if not store.find_outdated(kind, [missed], before=before):
                log.info("missed change found", kind=kind.kind, object=missed.display_name)
