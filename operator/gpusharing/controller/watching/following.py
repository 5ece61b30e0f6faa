"""The kinds of which there are thousands, watched by ourselves: from our own list on, straight into the store.

For each event of each object Kopf makes ready to call handlers, and it keeps something of each object that it has seen.
That costs several times what taking in the event does.
"""

from functools import partial
from typing import Any, Final

from gpusharing.controller.watching import listing
from gpusharing.controller.watching.store import Store
from gpusharing.kube import kinds, reflector
from gpusharing.kube.kinds import Kind
from gpusharing.kube.transport import Api
from gpusharing.kube.watches import Watches

FOLLOWED: Final[tuple[Kind[Any], ...]] = (kinds.NODE_SHARINGS, kinds.RESOURCE_CLAIMS, kinds.NODES)


async def follow(api: Api, store: Store, kind: Kind[Any], version: str, watches: Watches) -> None:
    """Until HistoryWentBackError. `version`: of the list that the store has taken in."""
    lists, takes_in = partial(listing.take_in, api, store, kind), partial(store.heard, kind)
    await reflector.follow(api, kind, version, watch=watches.add(kind), lists=lists, takes_in=takes_in)
