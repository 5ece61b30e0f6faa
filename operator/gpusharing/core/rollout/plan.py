"""The changes of a node if a suspended policy were applied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpusharing.api.sharing.node_spec import GpuSharing, PolicyReference
from gpusharing.api.sharing.plan import Effect, Plan, PlannedGpu, PlannedNode, PlanTotals
from gpusharing.api.sharing.rollout import RolloutMode
from gpusharing.core.policies.policy import ExaminedPolicy
from gpusharing.core.rollout.gpu_change import GpuChange, node_rollout
from gpusharing.core.state.node_view import NodeView

MOST_NODES: Final = 20
_MOST_CLAIMS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    node: PlannedNode
    claims: int
    """In the way, also those that are not named."""
    evicted: int
    """Those of them whose pods would be evicted."""
    repartitioned: int
    """GPUs."""


def applied(examined: ExaminedPolicy) -> ExaminedPolicy:
    """As it would be if it did not rest."""
    rollout = examined.policy.spec.rollout.model_copy(update={"mode": RolloutMode.APPLY, "paused": False})
    spec = examined.policy.spec.model_copy(update={"rollout": rollout})
    return replace(examined, policy=examined.policy.model_copy(update={"spec": spec}))


def node_plan(
    policies: Mapping[str, ExaminedPolicy],
    view: NodeView,
    decided: Sequence[GpuSharing],
    wanted: Sequence[GpuSharing],
    if_applied: Sequence[GpuSharing],
) -> NodePlan | None:
    """`policies` with the policy applied; `decided`: what is written now. None: nothing would change."""
    changes = node_rollout(policies, view.gpus, {gpu.uuid: gpu for gpu in decided}, if_applied).changes
    moves = [change for change, now in zip(changes, wanted, strict=True) if differ(change.after, now)]
    if not moves:
        return None
    return NodePlan(
        node=PlannedNode(node=view.name, gpus=tuple(map(_planned, moves))),
        claims=sum(len(change.claims) for change in moves),
        evicted=sum(len(change.claims) for change in moves if change.effect is Effect.EVICTS),
        repartitioned=sum(change.effect is Effect.REPARTITIONS for change in moves),
    )


def plan(nodes: Sequence[NodePlan]) -> Plan:
    """`nodes` in the order of their names."""
    totals = PlanTotals(
        nodes=len(nodes),
        gpus=sum(len(one.node.gpus) for one in nodes),
        claims=sum(one.claims for one in nodes),
        evicted=sum(one.evicted for one in nodes),
        repartitioned=sum(one.repartitioned for one in nodes),
    )
    return Plan(totals=totals, nodes=tuple(one.node for one in nodes[:MOST_NODES]))


def differ(one: GpuSharing, other: GpuSharing) -> bool:
    """To people: an edit that changes nothing on the GPU does not count."""
    return facts(one) != facts(other)


def facts(entry: GpuSharing) -> tuple[object, ...]:
    return _name(entry.policy), entry.offers, entry.restricted, entry.allow


def _planned(change: GpuChange) -> PlannedGpu:
    return PlannedGpu(
        uuid=change.after.uuid,
        before=_name(change.before.policy) if change.before else None,
        to=_name(change.after.policy),
        effect=change.effect,
        claims=change.claims[:_MOST_CLAIMS],
    )


def _name(policy: PolicyReference | None) -> str | None:
    return policy.name if policy else None
