"""The decision on one node, in two halves: what the policies want there, and what of that may be written now.

Between the halves, `gpusharing.core.rollout.budget` looks at all nodes: on how many of them may a policy begin?
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gpusharing.api.names import Sharing
from gpusharing.api.sharing.gpu_models import GpuModel
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.modes import for_mode
from gpusharing.api.sharing.node_spec import GpuSharing, NodeSharingSpec, Refusal, RefusalReason
from gpusharing.api.sharing.offers import Offers
from gpusharing.core.cluster.guards.tenants_in_force import TenantsInForce
from gpusharing.core.devices import reported_models
from gpusharing.core.events.on_write import notices
from gpusharing.core.figures.pending_claims import denied
from gpusharing.core.figures.rows import Row
from gpusharing.core.intents import Intent, RecordEvent
from gpusharing.core.memo import Memo
from gpusharing.core.policies.assignment import assign
from gpusharing.core.policies.policy import ExaminedPolicies
from gpusharing.core.policies.resolution import resolve
from gpusharing.core.policies.selection import Selection, Selector
from gpusharing.core.rollout.gpu_change import ChangeMemo, NodeRollout, node_rollout
from gpusharing.core.rollout.plan import NodePlan, applied, node_plan
from gpusharing.core.state.cluster_state import Setup
from gpusharing.core.state.fence import Closing, Fence
from gpusharing.core.state.node_view import NodeView
from gpusharing.core.status.contribution import Contribution, ContributionMemo, DecidedNode, contributions
from gpusharing.core.verdicts.conflicts import losses
from gpusharing.core.verdicts.occupancy import OccupancyMemo, closing_pools, next_approval, with_occupancy
from gpusharing.core.verdicts.quota import Excess
from gpusharing.core.verdicts.spec_size import fitted
from gpusharing.core.verdicts.taint_rules import rule_intents
from gpusharing.core.verdicts.tenancy import Registry
from gpusharing.core.verdicts.verdicts import EntryMemo, claim_entries

# As the API server takes.
_MOST_GPUS: Final = 64

_ABOUT_CLOSING: Final[Mapping[str, object]] = {"close_approved": (), "close_approved_since": (), "closed_names": ()}


class _Case(NamedTuple):
    """All that policies decide on: neither claims nor other nodes."""

    policies: ExaminedPolicies
    labels: Mapping[str, str]
    gpus: tuple[GpuStatus, ...]
    models: tuple[GpuModel, ...]
    written: tuple[GpuSharing, ...]
    """Entries as they were written last, without their allocated devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the policies make of a node."""

    gpus: tuple[GpuSharing, ...]
    """In the order of their slots, with resolved offers, and without their allocated devices."""
    selections: Mapping[str, Selection]
    """By the names of the accepted policies that want this node."""
    selected_by: frozenset[str]
    """Policies that select the node, accepted or not."""
    if_applied: Mapping[str, tuple[GpuSharing, ...]]
    """By the names of accepted policies that are suspended: how it would be if one was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    wanted: Wanted
    rollout: NodeRollout
    """Whom it disturbs to make the node what is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDecision:
    spec: NodeSharingSpec
    """As it should be written; the one that is there, if it is the same."""
    contributions: Mapping[str, Contribution]
    """To the statuses of policies."""
    until: float | None
    """The moment, in seconds since 1970, from which time alone makes it another one; None if it does not."""
    closing: Closing = field(default_factory=dict)
    """What the closing guard has to know of the node's pools."""
    taint_rules: Sequence[Intent] = ()
    """Those to be made and to be taken away."""
    notices: tuple[RecordEvent, ...] = ()
    """Events to record when the spec is written."""
    denied: Mapping[Row, int] = field(default_factory=dict)
    """Claims."""


class NodeMemo:
    """Parts of the last decision on a node: only those are made again whose inputs have changed."""

    __slots__ = ("changes", "entries", "occupancy", "parts", "selector", "wanted", "written")

    def __init__(self, driver: str) -> None:
        self.selector = Selector(driver)
        self.written: Memo[tuple[GpuSharing], GpuSharing] = Memo()
        self.wanted: Memo[_Case, Wanted] = Memo()
        self.changes: ChangeMemo = Memo()
        self.occupancy: OccupancyMemo = Memo()
        self.entries: EntryMemo = Memo()
        self.parts: ContributionMemo = Memo()


def propose(policies: ExaminedPolicies, view: NodeView, memo: NodeMemo) -> Proposal:
    before = memo.written.map(_without_holders, {gpu.uuid: (gpu,) for gpu in view.sharing.spec.gpus})
    case = _Case(
        policies=policies,
        labels=view.labels,
        gpus=tuple([gpu.status for gpu in view.gpus.values()]),
        models=view.sharing.status.models,
        written=tuple(before),
    )
    wanted = memo.wanted.one(lambda case: _wanted(case, memo.selector), case)
    rollout = node_rollout(policies.by_name, view.gpus, {gpu.uuid: gpu for gpu in before}, wanted.gpus, memo.changes)
    return Proposal(wanted=wanted, rollout=rollout)


def decide_node(
    policies: ExaminedPolicies,
    view: NodeView,
    proposal: Proposal,
    setup: Setup,
    memo: NodeMemo,
    *,
    tenants: TenantsInForce,
    beyond_quota: Excess,
    fence: Fence | None,
    stored: Fence,
    held_back: Collection[str],
    now: str,
) -> NodeDecision:
    """`fence`: what the closing guard refuses for sure; None: it is missing. `stored`: what it has. `held_back`:
    policies that may not begin here yet."""
    wanted, written = proposal.wanted, view.sharing.spec
    admitted = proposal.rollout.admitted(held_back)
    gpus = (
        *with_occupancy(
            admitted,
            view.gpus,
            written.gpus,
            fence=fence or {},
            stored=stored,
            withheld=proposal.rollout.withheld(held_back),
            idle_wait=setup.idle_wait,
            now=now,
            memo=memo.occupancy,
        ),
        *_missing(view),
    )
    lost = losses(view)
    registry = Registry(tenants, view.namespaces, beyond_quota)
    claims = claim_entries(view, admitted, registry, lost, memo.entries)
    spec = fitted(NodeSharingSpec(gpus=gpus, claims=claims), view)
    if spec == written:
        spec = written
    decided = DecidedNode(
        gpus=gpus,
        admitted=admitted,
        rollout=proposal.rollout,
        held_back=held_back,
        selected_by=wanted.selected_by,
        selections=wanted.selections,
        plans=_plans(policies, view, wanted, gpus) if wanted.if_applied else {},
        unguarded_wait=setup.idle_wait if fence is None else None,
    )
    return NodeDecision(
        spec=spec,
        contributions=contributions(policies.by_name, view, decided, memo.parts),
        until=next_approval(view.sharing.status.gpus, idle_wait=setup.idle_wait, now=now),
        closing=closing_pools(admitted, view.gpus, stored),
        notices=notices(view, spec, policies.readable),
        taint_rules=rule_intents(view, {place for loss in lost.values() for place in loss.evicted_from}),
        denied=denied(spec.claims, spec.gpus),
    )


def _without_holders(things: tuple[GpuSharing]) -> GpuSharing:
    return things[0].model_copy(update={"allocated": (), **_ABOUT_CLOSING})


def _wanted(case: _Case, selector: Selector) -> Wanted:
    policies = case.policies
    selections = selector.selections(policies.in_order, labels=case.labels, gpus=case.gpus)
    # Those that neither want the node nor have anything here would change nothing.
    here = selections.keys() | {gpu.policy.name for gpu in case.written if gpu.policy}
    suspended = [one for one in policies.in_order if one.name in here and one.is_suspended and one.objection is None]
    return Wanted(
        gpus=_assigned(policies, case, selections),
        selections=selections,
        selected_by=frozenset(
            one.name for one in policies.in_order if case.gpus and one.policy.spec.nodes.matches(case.labels)
        ),
        if_applied={one.name: _assigned(policies.replacing(applied(one)), case, selections) for one in suspended},
    )


def _assigned(policies: ExaminedPolicies, case: _Case, selections: Mapping[str, Selection]) -> tuple[GpuSharing, ...]:
    uuids = [gpu.uuid for gpu in case.gpus]
    won = assign(policies.in_order, selections=selections, uuids=uuids, before=case.written)
    before = {gpu.uuid: gpu for gpu in case.written}
    return tuple(
        _resolved(gpu, status, case.models, before.get(gpu.uuid)) for gpu, status in zip(won, case.gpus, strict=True)
    )


def _resolved(gpu: GpuSharing, status: GpuStatus, models: Sequence[GpuModel], before: GpuSharing | None) -> GpuSharing:
    if gpu.offers is None:
        return gpu
    has_layout = gpu.offers.mig is not None and gpu.offers.mig.layout is not None
    try:
        resolution = resolve(
            gpu.offers,
            gpu=reported_models.reported(status, models if has_layout else ()),
            mig_profiles=status.mig_profiles,
            memory_wall=status.memory_wall,
            allow=gpu.allow,
        )
    except Exception as error:  # noqa: BLE001 (of whatever kind: it concerns this policy on this GPU alone)
        return _closed(gpu, before, error)
    # What stayed as it was is resolved already, and keeps what was refused then.
    return gpu.model_copy(update={"offers": resolution.offers, "refused": gpu.refused + resolution.refused})


def _closed(gpu: GpuSharing, before: GpuSharing | None, error: Exception) -> GpuSharing:
    """A failure opens nothing: the GPU offers what its policy had in force on it, or nothing."""
    message = f"the operator cannot resolve this offer ({type(error).__name__}): report it; the GPU stays unchanged"
    refused = tuple(
        Refusal(sharing=sharing, reason=RefusalReason.INTERNAL_ERROR, message=message)
        for sharing in Sharing
        if gpu.offers and for_mode(gpu.offers, sharing)
    )
    had = before.offers if before and before.policy and gpu.policy and before.policy.name == gpu.policy.name else None
    return gpu.model_copy(update={"offers": had or Offers(), "refused": refused})


def _plans(
    policies: ExaminedPolicies, view: NodeView, wanted: Wanted, decided: Sequence[GpuSharing]
) -> Mapping[str, NodePlan]:
    """Of the policies that are suspended; `decided` is what is written now."""
    plans = {
        name: node_plan(
            policies.replacing(applied(policies.by_name[name])).by_name, view, decided, wanted.gpus, if_applied
        )
        for name, if_applied in wanted.if_applied.items()
    }
    return {name: plan for name, plan in plans.items() if plan}


def _missing(view: NodeView) -> tuple[GpuSharing, ...]:
    """GPUs that were shared and that the agent does not report: when they come back they are what they were."""
    missing = [gpu for gpu in view.sharing.spec.gpus if gpu.policy and gpu.uuid not in view.gpus]
    return tuple(
        gpu.model_copy(update={"losers": (), **_ABOUT_CLOSING})
        for gpu in missing[: max(0, _MOST_GPUS - len(view.gpus))]
    )
