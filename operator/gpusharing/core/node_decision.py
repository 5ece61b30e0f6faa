"""The decision on one node, in two halves: what it should be, and what is written about what may come into force.

Between the two stands what only the whole cluster can answer: whom the changes disturb, and how many at a time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpusharing.api.sharing import GpuSharing, GpuStatus, NodeSharingSpec, NodeSharingStatus
from gpusharing.core import models
from gpusharing.core.acceptance import Candidate
from gpusharing.core.assign import assign
from gpusharing.core.claims import claim_entries
from gpusharing.core.conflicts import losses
from gpusharing.core.intents import Intent, Tell
from gpusharing.core.node_share import NodeShare, Outcome, node_shares
from gpusharing.core.notices import notices
from gpusharing.core.occupancy import allocated_by_slot, next_approval, with_occupancy
from gpusharing.core.plan import NodePlan, applied, node_plan
from gpusharing.core.resolution import resolve
from gpusharing.core.rollout import NodeRollout, node_rollout
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
    selected_by: frozenset[str]
    """Policies that select the node, accepted or not."""
    if_applied: Mapping[str, tuple[GpuSharing, ...]]
    """By the names of accepted policies that rest: how it would be if one did not."""


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


_NO_MODELS: Final = NodeSharingStatus()
# As the API server takes.
_MOST_GPUS: Final = 64


def wanted(candidates: Sequence[Candidate], view: NodeView, selector: Selector) -> Wanted:
    selections = selector.selections(candidates, view)
    resting = [candidate for candidate in candidates if candidate.rests and candidate.objection is None]
    return Wanted(
        gpus=_assigned(candidates, view, selections),
        selections=selections,
        selected_by=frozenset(
            candidate.name
            for candidate in candidates
            if view.sharing.status.gpus and candidate.policy.spec.nodes.matches(view.labels)
        ),
        if_applied={
            candidate.name: _assigned(_with_applied(candidates, candidate.name), view, selections)
            for candidate in resting
        },
    )


def changes(candidates: Mapping[str, Candidate], view: NodeView, wish: Wanted, setup: Setup) -> NodeRollout:
    """Whom it disturbs to make the node what is wanted. `candidates`: by name."""
    return node_rollout(candidates, view, wish.gpus, setup.driver)


def decision(
    candidates: Sequence[Candidate],
    view: NodeView,
    wish: Wanted,
    setup: Setup,
    *,
    rollout: NodeRollout,
    held_back: Collection[str],
    now: str,
) -> NodeDecision:
    """`held_back`: policies that may not begin here yet."""
    allocated = allocated_by_slot(view, setup.driver)
    gpus = tuple(
        with_occupancy(gpu, status, allocated.get(status.slot, ()), idle_wait=setup.idle_wait, now=now)
        for gpu, status in zip(rollout.admitted(held_back), view.gpus, strict=True)
    )
    policies = {candidate.name: candidate.policy for candidate in candidates if candidate.is_readable}
    lost = losses(view, setup.driver)
    claims = claim_entries(view, gpus, _registry(candidates, view), lost, setup.driver)
    spec = NodeSharingSpec(gpus=gpus + _missing(view), claims=claims)
    then = replace(view, sharing=view.sharing.model_copy(update={"spec": spec}))
    plans = {
        name: plan
        for name, gpus_then in wish.if_applied.items()
        if (plan := _plan(_with_applied(candidates, name), then, wish.gpus, gpus_then, setup))
    }
    outcome = Outcome(spec=spec, rollout=rollout, held_back=held_back, selections=wish.selections, plans=plans)
    return NodeDecision(
        spec=spec,
        shares=node_shares(candidates, view, outcome, setup.driver),
        until=next_approval(view.gpus, idle_wait=setup.idle_wait, now=now),
        notices=notices(view, spec, policies, setup.driver),
        taint_rules=rule_intents(view, {place for loss in lost.values() for place in loss.evicted_from}, setup.driver),
    )


def _registry(candidates: Sequence[Candidate], view: NodeView) -> Registry:
    known = {candidate.name: candidate.tenants for candidate in candidates}
    return Registry({name: tenants for name, tenants in known.items() if tenants is not None}, view.namespaces)


def _assigned(
    candidates: Sequence[Candidate], view: NodeView, selections: Mapping[str, Selection]
) -> tuple[GpuSharing, ...]:
    statuses = view.gpus
    won = assign(candidates, selections=selections, uuids=[gpu.uuid for gpu in statuses], before=view.sharing.spec.gpus)
    return tuple(_resolved(gpu, status, view.sharing.status) for gpu, status in zip(won, statuses, strict=True))


def _plan(
    candidates: Sequence[Candidate],
    view: NodeView,
    gpus_now: Sequence[GpuSharing],
    gpus_then: Sequence[GpuSharing],
    setup: Setup,
) -> NodePlan | None:
    by_name = {candidate.name: candidate for candidate in candidates}
    return node_plan(by_name, view, gpus_now, gpus_then, setup.driver)


def _with_applied(candidates: Sequence[Candidate], name: str) -> list[Candidate]:
    return [applied(candidate) if candidate.name == name else candidate for candidate in candidates]


def _missing(view: NodeView) -> tuple[GpuSharing, ...]:
    """GPUs that were shared and that the agent does not report: when they come back they are what they were."""
    reported = {gpu.uuid for gpu in view.sharing.status.gpus}
    missing = [gpu for gpu in view.sharing.spec.gpus if gpu.policy and gpu.uuid not in reported]
    return tuple(
        gpu.model_copy(update={"losers": (), "close_approved": ()})
        for gpu in missing[: max(0, _MOST_GPUS - len(reported))]
    )


def _resolved(gpu: GpuSharing, status: GpuStatus, node: NodeSharingStatus) -> GpuSharing:
    if gpu.offers is None:
        return gpu
    is_cut_for_good = gpu.offers.mig is not None and gpu.offers.mig.layout is not None
    resolution = resolve(
        gpu.offers,
        gpu=models.reported(status, node if is_cut_for_good else _NO_MODELS),
        mig_profiles=status.mig_profiles,
        memory_wall=status.memory_wall,
        allow=gpu.allow,
    )
    # What stayed as it was is resolved already, and keeps what was said of it then.
    return gpu.model_copy(update={"offers": resolution.offers, "refused": gpu.refused + resolution.refused})
