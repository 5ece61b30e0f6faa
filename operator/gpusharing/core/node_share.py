"""What one node adds to the status of each policy."""

from collections import Counter
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gpusharing.api.sharing import GpuSharing, LaggingNode, NodeSharingSpec, Offers, RefusalReason
from gpusharing.core.acceptance import Candidate
from gpusharing.core.disturbance import failure
from gpusharing.core.lagging import lagging
from gpusharing.core.plan import NodePlan
from gpusharing.core.rollout import NodeRollout, is_changing, takes_up_a_place
from gpusharing.core.selection import Selection
from gpusharing.core.world import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """A node as one policy sees it: numbers, and sentences about it that may stand in a message."""

    selected: bool
    won: int = 0
    """GPUs."""
    coming: int = 0
    """GPUs that it wins when its change has begun here."""
    counted: bool = False
    """Whether GPUs that were won are offered in ways that exclude each other, by counters."""
    places: int = 0
    """Claims that the GPUs won can hold at the same time."""
    clients: int = 0
    """Claims' devices on GPUs on which the policy is in force."""
    lost: tuple[str, ...] = ()
    """GPUs that others won: which, to whom, why."""
    failed: tuple[str, ...] = ()
    """GPUs on which a selector failed, and how."""
    refused: tuple[tuple[RefusalReason, str], ...] = ()
    """What the GPUs won cannot carry."""
    lagging: LaggingNode | None = None
    """Why what was won here is not in force yet."""
    held_back: bool = False
    """Whether it stays as it was for now."""
    changing: bool = False
    """Whether work is evicted or GPUs are cut anew."""
    failing: tuple[str, ...] = ()
    """GPUs that cannot be used, or not in this way, and why."""
    stops: bool = False
    """Whether that takes up one of the places of nodes that may be unavailable."""
    planned: NodePlan | None = None
    """What would be done if the policy did not rest."""

    @property
    def is_ready(self) -> bool:
        return self.selected and self.won > 0 and self.lagging is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All that was decided for a node."""

    spec: NodeSharingSpec
    rollout: NodeRollout
    held_back: Collection[str]
    """Policies that may not begin here yet."""
    selected_by: AbstractSet[str]
    """Policies that select the node."""
    selections: Mapping[str, Selection]
    plans: Mapping[str, NodePlan]


def node_shares(candidates: Mapping[str, Candidate], view: NodeView, outcome: Outcome) -> Mapping[str, NodeShare]:
    """By policy; only those to which the node is something."""
    decided = outcome.spec.gpus
    clients = _clients_by_policy(view, outcome.spec)
    concerned = (
        {gpu.policy.name for gpu in decided if gpu.policy}
        | {loser.policy for gpu in decided for loser in gpu.losers}
        | {change.policy for change in outcome.rollout.changes}
        | clients.keys()
    )
    return {
        policy: _share(policy, view, outcome, selected=policy in outcome.selected_by, clients=clients[policy])
        for policy in candidates.keys() & (outcome.selected_by | concerned)
    }


def _share(policy: str, view: NodeView, outcome: Outcome, *, selected: bool, clients: int) -> NodeShare:
    rollout, selection = outcome.rollout, outcome.selections.get(policy)
    gpus = rollout.gpus
    # Those that the agent does not report are kept in mind, and are nothing that anybody has.
    decided = [gpu for gpu in outcome.spec.gpus if gpu.uuid in gpus]
    won = [gpu for gpu in decided if _is_of(gpu, policy)]
    pairs = [(gpu, change.after) for gpu, change in zip(decided, rollout.changes, strict=True) if _is_of(gpu, policy)]
    return NodeShare(
        selected=selected,
        won=len(won),
        coming=sum(
            _is_of(change.after, policy) and not _is_of(gpu, policy)
            for change, gpu in zip(rollout.changes, decided, strict=True)
        ),
        counted=any(gpu.offers is not None and _is_counted(gpu.offers) for gpu in won),
        places=sum(map(_places, won)),
        clients=clients,
        lost=tuple(
            f"{gpu.uuid} of {view.name} to {gpu.policy.name if gpu.policy else 'nobody'} ({loser.reason})"
            for gpu in decided
            for loser in gpu.losers
            if loser.policy == policy
        ),
        failed=tuple(f"{uuid} of {view.name}: {why}" for uuid, why in selection.failed.items()) if selection else (),
        refused=tuple(
            (refusal.reason, f"{gpu.uuid} of {view.name}: {refusal.message}") for gpu in won for refusal in gpu.refused
        ),
        lagging=lagging(policy, view.name, won=won, gpus=gpus, rollout=rollout, held_back=outcome.held_back),
        held_back=policy in outcome.held_back,
        changing=any(is_changing(gpu, gpus[gpu.uuid]) for gpu in won),
        failing=tuple(
            f"{gpu.uuid} of {view.name}: {why}" for gpu in won if (why := failure(gpus[gpu.uuid].status)) is not None
        ),
        stops=any(takes_up_a_place(gpu, wanted, gpus[gpu.uuid]) for gpu, wanted in pairs),
        planned=outcome.plans.get(policy),
    )


def _clients_by_policy(view: NodeView, decided: NodeSharingSpec) -> Counter[str]:
    """Of the policies in force, not of those to come."""
    in_force = {gpu.uuid: gpu.policy.name for gpu in view.sharing.status.gpus if gpu.policy}
    clients: Counter[str] = Counter()
    for gpu in decided.gpus:
        if gpu.allocated and gpu.uuid in in_force:
            clients[in_force[gpu.uuid]] += len(gpu.allocated)
    return clients


def _is_counted(offers: Offers) -> bool:
    cut_on_demand = offers.mig is not None and offers.mig.layout is None
    ways = (offers.exclusive, offers.time_slicing, offers.mps, offers.mig)
    return cut_on_demand or sum(way is not None for way in ways) > 1


def _places(gpu: GpuSharing) -> int:
    if gpu.offers is None:
        return 1
    shared = [offer.max_clients for offer in (gpu.offers.time_slicing, gpu.offers.mps) if offer]
    cut = [sum(gpu.offers.mig.layout.values())] if gpu.offers.mig and gpu.offers.mig.layout else []
    return max([*shared, *cut, 1])


def _is_of(gpu: GpuSharing, policy: str) -> bool:
    return gpu.policy is not None and gpu.policy.name == policy
