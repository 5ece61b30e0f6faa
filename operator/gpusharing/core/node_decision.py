"""The decision on one node, in two halves: what it should be, and what is written about what may come into force.

Between the two stands what only the whole cluster can answer: whom the changes disturb, and how many at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusharing.api.sharing import GpuSharing, GpuStatus, NodeSharingSpec
from gpusharing.core.acceptance import Candidate
from gpusharing.core.amounts import mebibytes
from gpusharing.core.assign import assign
from gpusharing.core.claims import claim_entries
from gpusharing.core.conflicts import losses
from gpusharing.core.intents import Intent, Tell
from gpusharing.core.node_share import NodeShare, node_shares
from gpusharing.core.notices import notices
from gpusharing.core.occupancy import allocated_by_slot, next_approval, with_occupancy
from gpusharing.core.resolution import resolve
from gpusharing.core.selection import Selection, Selector
from gpusharing.core.taint_rules import rule_intents
from gpusharing.core.tenancy import Registry
from gpusharing.core.world import NodeView, Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the policies make of a node. Claims play no part in it, nor do other nodes."""

    gpus: tuple[GpuSharing, ...]
    """In the order of their slots, with offers as they come to on each; who holds it is not said yet."""
    selections: Mapping[str, Selection]
    """By the names of the accepted policies that want this node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDecision:
    spec: NodeSharingSpec
    """As it should be written."""
    shares: Mapping[str, NodeShare]
    """What the node adds to the statuses of policies."""
    until: float | None
    """The moment, in seconds since 1970, from which time alone makes it another one; None if it does not."""
    taint_rules: Sequence[Intent] = ()
    """Those to be made and to be taken away."""
    notices: tuple[Tell, ...] = ()
    """What people are told when the spec is written."""


def wanted(candidates: Sequence[Candidate], view: NodeView, selector: Selector) -> Wanted:
    statuses = view.gpus
    selections = selector.selections(candidates, view)
    won = assign(
        candidates,
        selections=selections,
        uuids=[gpu.uuid for gpu in statuses],
        before=view.sharing.spec.gpus,
    )
    gpus = tuple(_resolved(gpu, status) for gpu, status in zip(won, statuses, strict=True))
    return Wanted(gpus=gpus, selections=selections)


def decision(
    candidates: Sequence[Candidate],
    view: NodeView,
    wish: Wanted,
    admitted: Sequence[GpuSharing],
    setup: Setup,
    *,
    now: str,
) -> NodeDecision:
    """`admitted`: for each of the wanted GPUs, how it is to be now."""
    allocated = allocated_by_slot(view, setup.driver)
    gpus = tuple(
        with_occupancy(gpu, status, allocated.get(status.slot, ()), idle_wait=setup.idle_wait, now=now)
        for gpu, status in zip(admitted, view.gpus, strict=True)
    )
    policies = {candidate.name: candidate.policy for candidate in candidates}
    lost = losses(view, setup.driver)
    claims = claim_entries(view, gpus, Registry(policies, view.namespaces), lost, setup.driver)
    spec = NodeSharingSpec(gpus=gpus, claims=claims)
    return NodeDecision(
        spec=spec,
        shares=node_shares(candidates, view, spec, wish.selections),
        until=next_approval(view.gpus, idle_wait=setup.idle_wait, now=now),
        notices=notices(view, spec, policies, setup.driver),
        taint_rules=rule_intents(view, {place for loss in lost.values() for place in loss.evicted_from}, setup.driver),
    )


def _resolved(gpu: GpuSharing, status: GpuStatus) -> GpuSharing:
    if gpu.offers is None:
        return gpu
    resolution = resolve(
        gpu.offers,
        memory_mib=mebibytes(status.memory),
        mig_profiles=status.mig_profiles,
        memory_wall=status.memory_wall,
        allow=gpu.allow,
    )
    # What stayed as it was is resolved already, and keeps what was said of it then.
    return gpu.model_copy(update={"offers": resolution.offers, "refused": gpu.refused + resolution.refused})
