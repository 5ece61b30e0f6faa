"""The decision on one node, in two halves: what it should be, and what is written about what may come into force.

Between the two stands what only the whole cluster can answer: whom the changes disturb, and how many at a time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import GpuSharing, NodeSharingSpec, Verdict
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.core.devices import reported_models
from gpusharing.core.events.on_write import notices
from gpusharing.core.intents import Intent, Tell
from gpusharing.core.memo import Kept
from gpusharing.core.policies.assignment import assign
from gpusharing.core.policies.policy import Candidates
from gpusharing.core.policies.resolution import resolve
from gpusharing.core.policies.selection import Selection, Selector
from gpusharing.core.rollout.gpu_change import KeptChanges, NodeRollout, node_rollout
from gpusharing.core.rollout.plan import NodePlan, applied, node_plan
from gpusharing.core.state.node_view import NodeView, Setup
from gpusharing.core.state.touched import Touched
from gpusharing.core.status.contribution import KeptShares, NodeShare, Outcome, node_shares
from gpusharing.core.verdicts.conflicts import losses
from gpusharing.core.verdicts.occupancy import KeptOccupancy, next_approval, with_occupancy
from gpusharing.core.verdicts.spec_size import fitted
from gpusharing.core.verdicts.taint_rules import rule_intents
from gpusharing.core.verdicts.tenancy import Registry
from gpusharing.core.verdicts.verdicts import KeptEntries, claim_entries


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
    """As it should be written; the one that is there, if it is the same."""
    shares: Mapping[str, NodeShare]
    """What the node adds to the statuses of policies."""
    until: float | None
    """The moment, in seconds since 1970, from which time alone makes it another one; None if it does not."""
    taint_rules: Sequence[Intent] = ()
    """Those to be made and to be taken away."""
    notices: tuple[Tell, ...] = ()
    """What people are told when the spec is written."""


# As the API server takes.
_MOST_GPUS: Final = 64


class Memory:
    """What was made of a node, part by part, so that only what has changed is made anew."""

    __slots__ = ("changes", "entries", "had_losses", "occupancy", "selector", "shares")

    def __init__(self, driver: str) -> None:
        self.selector = Selector(driver)
        self.changes: KeptChanges = Kept()
        self.occupancy: KeptOccupancy = Kept()
        self.entries: KeptEntries = Kept()
        self.had_losses = False
        self.shares: KeptShares = Kept()


def wanted(candidates: Candidates, view: NodeView, memory: Memory) -> Wanted:
    selections = memory.selector.selections(candidates.in_order, view)
    resting = [candidate for candidate in candidates.in_order if candidate.rests and candidate.objection is None]
    return Wanted(
        gpus=_assigned(candidates, view, selections),
        selections=selections,
        selected_by=frozenset(
            candidate.name
            for candidate in candidates.in_order
            if view.sharing.status.gpus and candidate.policy.spec.nodes.matches(view.labels)
        ),
        if_applied={
            candidate.name: _assigned(candidates.replacing(applied(candidate)), view, selections)
            for candidate in resting
        },
    )


def says_the_same_of_gpus(before: NodeSharing, after: NodeSharing) -> bool:
    """Whether what is wanted stays as it was. Who holds them plays no part in it."""
    return before is after or (
        before.status.gpus == after.status.gpus
        and before.status.models == after.status.models
        and _are_given_alike(before.spec.gpus, after.spec.gpus)
    )


def decided_once(before: NodeSharingSpec, after: NodeSharingSpec) -> bool:
    """Whether `after`, decided where `before` was told last, stays what is decided when it has been told itself.

    Of what was told, decisions look at how GPUs are given, and at what claims were promised: who was allowed to have a
    device keeps it. That a claim was denied, or a GPU is given in another way, may change what is said next.
    """
    known = {entry.uid: entry for entry in before.claims}
    return _are_given_alike(before.gpus, after.gpus) and all(
        entry is known.get(entry.uid) or entry.verdict is Verdict.ALLOWED for entry in after.claims
    )


def _are_given_alike(before: Sequence[GpuSharing], after: Sequence[GpuSharing]) -> bool:
    return len(before) == len(after) and all(map(_is_given_alike, before, after))


def _is_given_alike(before: GpuSharing, after: GpuSharing) -> bool:
    held = {"allocated": after.allocated, "close_approved": after.close_approved}
    return before is after or before.model_copy(update=held) == after


def changes(
    candidates: Candidates,
    view: NodeView,
    wish: Wanted,
    setup: Setup,
    memory: Memory,
    *,
    touched: Touched | None = None,
) -> NodeRollout:
    """Whom it disturbs to make the node what is wanted. `touched`: since that was asked last; None: anything may be."""
    return node_rollout(candidates.by_name, view, wish.gpus, setup.driver, memory.changes, touched=touched)


def decision(
    candidates: Candidates,
    view: NodeView,
    wish: Wanted,
    setup: Setup,
    memory: Memory,
    *,
    rollout: NodeRollout,
    held_back: Collection[str],
    now: str,
    touched: Touched | None = None,
) -> NodeDecision:
    """`held_back`: policies that may not begin here yet. `touched`: since the last decision; None: anything may be."""
    admitted = rollout.admitted(held_back)
    views, before = [change.gpu for change in rollout.changes], view.sharing.spec.gpus
    gpus = with_occupancy(
        admitted, views, before, idle_wait=setup.idle_wait, now=now, kept=memory.occupancy, touched=touched
    )
    lost = losses(view, setup.driver)
    registry = Registry(candidates.tenants, view.namespaces)
    # Who loses a device does so to claims on any GPUs.
    spared = None if lost or memory.had_losses else touched
    memory.had_losses = bool(lost)
    claims = claim_entries(view, admitted, registry, lost, setup.driver, kept=memory.entries, touched=spared)
    spec = fitted(NodeSharingSpec(gpus=gpus + _missing(view), claims=claims), view, setup.driver)
    if spec == view.sharing.spec:
        spec = view.sharing.spec
    outcome = Outcome(
        spec=spec,
        admitted=admitted,
        rollout=rollout,
        held_back=held_back,
        selected_by=wish.selected_by,
        selections=wish.selections,
        plans=_plans(candidates, view, wish, spec, setup) if wish.if_applied else {},
    )
    return NodeDecision(
        spec=spec,
        shares=node_shares(candidates.by_name, view, outcome, memory.shares, touched),
        until=next_approval(view.sharing.status.gpus, idle_wait=setup.idle_wait, now=now),
        notices=notices(view, spec, candidates.readable, setup.driver),
        taint_rules=rule_intents(view, {place for loss in lost.values() for place in loss.evicted_from}, setup.driver),
    )


def _assigned(candidates: Candidates, view: NodeView, selections: Mapping[str, Selection]) -> tuple[GpuSharing, ...]:
    statuses = view.gpus
    won = assign(
        candidates.in_order, selections=selections, uuids=[gpu.uuid for gpu in statuses], before=view.sharing.spec.gpus
    )
    return tuple(_resolved(gpu, status, view.sharing.status) for gpu, status in zip(won, statuses, strict=True))


def _plans(
    candidates: Candidates, view: NodeView, wish: Wanted, spec: NodeSharingSpec, setup: Setup
) -> Mapping[str, NodePlan]:
    """Of the policies that rest; `spec` is what is decided now."""
    then = replace(view, sharing=view.sharing.model_copy(update={"spec": spec}))
    return {
        name: plan
        for name, gpus_then in wish.if_applied.items()
        if (
            plan := node_plan(
                candidates.replacing(applied(candidates.by_name[name])).by_name,
                then,
                wish.gpus,
                gpus_then,
                setup.driver,
            )
        )
    }


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
        gpu=reported_models.reported(status, node.models if is_cut_for_good else ()),
        mig_profiles=status.mig_profiles,
        memory_wall=status.memory_wall,
        allow=gpu.allow,
    )
    # What stayed as it was is resolved already, and keeps what was said of it then.
    return gpu.model_copy(update={"offers": resolution.offers, "refused": gpu.refused + resolution.refused})
