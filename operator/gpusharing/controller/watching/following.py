"""Which kinds are watched, and who hears of their events: Kopf's handlers, or the store at once."""

from functools import partial
from typing import Any, Final

from gpusharing.controller.kopf_session import KopfSession
from gpusharing.controller.watching import listing
from gpusharing.controller.watching.store import Store
from gpusharing.kube import kinds, reflector
from gpusharing.kube.kinds import Kind
from gpusharing.kube.transport import Api
from gpusharing.kube.watches import Watches

HANDLED: Final[tuple[Kind[Any], ...]] = (
    kinds.SHARING_POLICIES,
    kinds.RESOURCE_CLAIMS,
    kinds.DEVICE_CLASSES,
    kinds.NAMESPACES,
    kinds.RESOURCE_QUOTAS,
)
"""By Kopf's handlers."""

# Heartbeats of thousands of nodes: handing one to a handler costs several times what taking it in does. And templates,
# which may be large: none of them waits for Kopf as it was read.
BESIDE_KOPF: Final[tuple[Kind[Any], ...]] = (kinds.NODE_SHARINGS, kinds.NODES, kinds.RESOURCE_CLAIM_TEMPLATES)

WATCHED: Final = (*HANDLED, *BESIDE_KOPF)


async def follow(
    api: Api, store: Store, session: KopfSession, kind: Kind[Any], version: str, *, watches: Watches
) -> None:
    """Until HistoryWentBackError. `version`: of the list that the store has taken in."""
    lists = partial(listing.take_in, api, store, kind)
    takes_in = partial(session.hand_on if kind in HANDLED else store.apply_event, kind)
    await reflector.follow(api, kind, version, watch=watches.add(kind), lists=lists, takes_in=takes_in)
