"""Claims that hold one GPU in modes that exclude each other: which of them has to give way, and what evicts it.

Only the scheduler can cause this (`gpusharing.core.publishing.narrowing` says when). The agent refuses what conflicts
with prepared devices, so what runs is safe, but the later claim would wait for ever: its pods have to be evicted and
scheduled again.

Prepared claims stay. Of the others, the earliest allocation stays with all that go together with it. A device that has
a taint rule already gives way: otherwise both claims could be evicted.

A rule evicts every claim from its device. If that would hit a claim that is in no conflict (admin access without a
toleration, or the first claim on a whole GPU that was allocated twice), there is no rule: a claim that waits until
people act does less harm.

MIG instances conflict if they start at the same place: their names do not say how large they are. Of others that
overlap, the node refuses the later one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache

from gpusharing.api import names
from gpusharing.api.dra import AllocationResult, ResourceClaim
from gpusharing.core.claims import allocation
from gpusharing.core.state.node_view import Hold, NodeView, Place
from gpusharing.core.text import release_hint
from gpusharing.core.verdicts.taint_rules import place_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A claim that has to give way."""

    reason: str
    """With the claim that holds the GPU, and the remedy."""
    evicted_from: frozenset[Place]
    """Its devices from which rules evict it. None: people have to act."""


@dataclass(frozen=True, slots=True)
class _Clash:
    mine: Hold
    other: Hold


def losses(view: NodeView) -> Mapping[str, Loss]:
    """By the uid of the claim."""
    holds = [hold for hold in view.holds if hold.slot is not None]
    taking = [hold for hold in holds if not hold.result.admin_access]
    if not _is_any_gpu_held_twice(taking):
        return {}
    losers = _losers(view, taking, _prepared(view))
    evicted = _evicted(view, holds, losers)
    return {uid: _loss(clashes, evicted) for uid, clashes in losers.items()}


def _is_any_gpu_held_twice(taking: Iterable[Hold]) -> bool:
    """Which is rare: on all other nodes there is nothing to think about."""
    seen: defaultdict[int | None, dict[str, str]] = defaultdict(dict)
    for hold in taking:
        device, others = hold.result.device, seen[hold.slot]
        for other, uid in others.items():
            if uid != hold.uid and not _go_together(device, other):
                return True
        others.setdefault(device, hold.uid)
    return False


def _prepared(view: NodeView) -> AbstractSet[str]:
    """Uids of the claims of which the agent has prepared exactly what they are allocated."""
    held: defaultdict[str, list[AllocationResult]] = defaultdict(list)
    for hold in view.holds:
        held[hold.uid].append(hold.result)
    return {
        status.uid
        for status in view.sharing.status.claims
        if status.uid in held and allocation.is_prepared_as(status, held[status.uid])
    }


@lru_cache(4096)  # As many as there are names of devices on a node with all ways of sharing.
def _go_together(device: str, other: str) -> bool:
    """Whether two claims may hold these devices of one GPU, as far as their names tell."""
    mine, theirs = names.read_device(device), names.read_device(other)
    if mine is None or theirs is None or mine.sharing is not theirs.sharing:
        return False
    if mine.place and theirs.place:
        return mine.place.start != theirs.place.start
    return mine.sharing is not names.Sharing.EXCLUSIVE


def _losers(view: NodeView, holds: Iterable[Hold], prepared: AbstractSet[str]) -> Mapping[str, list[_Clash]]:
    by_claim: defaultdict[str, list[Hold]] = defaultdict(list)
    for hold in holds:
        by_claim[hold.uid].append(hold)
    tainted = {place_of(rule) for rule in view.taint_rules or ()}

    def rank(own: Sequence[Hold]) -> tuple[bool, bool, str, str]:
        claim = own[0].claim
        goes_already = any(hold.place in tainted for hold in own)
        return goes_already, claim.metadata.uid not in prepared, _moment(claim), claim.metadata.uid

    staying: defaultdict[int | None, dict[str, Hold]] = defaultdict(dict)
    losers: dict[str, list[_Clash]] = {}
    for own in sorted(by_claim.values(), key=rank):
        clashes = [
            _Clash(hold, other)
            for hold in own
            for other in staying[hold.slot].values()
            if not _go_together(hold.result.device, other.result.device)
        ]
        goes_already, waits, _, uid = rank(own)
        # Two of which the node says that they run are not to be ended from here.
        if clashes and (waits or goes_already):
            losers[uid] = clashes
        else:
            for hold in own:
                staying[hold.slot].setdefault(hold.result.device, hold)
    return losers


def _moment(claim: ResourceClaim) -> str:
    """When it was allocated, or else when it was made; the API server writes all moments alike."""
    at = claim.status.allocation.allocation_timestamp if claim.status.allocation else None
    return at or claim.metadata.creation_timestamp


def _evicted(view: NodeView, holds: Iterable[Hold], losers: Mapping[str, Sequence[_Clash]]) -> set[Place]:
    """Conflicting devices from which a rule would evict only claims that have to give way."""
    if view.taint_rules is None:
        return set()
    in_the_way = {clash.mine.place for clashes in losers.values() for clash in clashes}
    hit = [
        hold
        for hold in holds
        if hold.place in in_the_way and not allocation.tolerates(hold.result, names.CONFLICT_TAINT)
    ]
    bystanders = {hold.place for hold in hit if hold.uid not in losers}
    return {hold.place for hold in hit} - bystanders


def _loss(clashes: Sequence[_Clash], evicted: AbstractSet[Place]) -> Loss:
    mine, other = clashes[0].mine, clashes[0].other
    evicted_from = frozenset(clash.mine.place for clash in clashes) & evicted
    # That there are rules does not mean that anybody acts on them: a feature gate decides on that.
    asked = "Kubernetes is asked to evict this claim's pods; if they stay, " if evicted_from else ""
    reason = (
        f"device {mine.place} conflicts with {other.place} on the same GPU, which is allocated to claim "
        f"{allocation.display_name(other.claim)}: {asked}{release_hint(mine.claim)}"
    )
    return Loss(reason=reason, evicted_from=evicted_from)
