"""What one node contributes to the status of each policy."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.node_spec import GpuSharing, RefusalReason
from gpusharing.api.sharing.offers import Offers
from gpusharing.api.sharing.policy_status import LaggingNode
from gpusharing.core.claims.allocation import display_name, tolerates
from gpusharing.core.memo import Memo
from gpusharing.core.policies.policy import ExaminedPolicy
from gpusharing.core.policies.selection import Selection
from gpusharing.core.rollout.gpu_change import GpuChange, NodeRollout, counts_as_unavailable, is_changing
from gpusharing.core.rollout.gpu_progress import blocking_holds, failure
from gpusharing.core.rollout.plan import NodePlan
from gpusharing.core.state.node_view import GpuView, Hold, NodeView
from gpusharing.core.status.lagging import Late, is_late, lagging


class RefusedOffer(NamedTuple):
    reason: RefusalReason
    gpu: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """A node as one policy sees it: numbers, and sentences about it for messages."""

    selected: bool
    won: int = 0
    """GPUs."""
    coming: int = 0
    """GPUs that it wins when its change has begun here."""
    counted: bool = False
    """Whether GPUs that were won are offered in modes that exclude each other."""
    places: int = 0
    """Claims that the GPUs won can hold at the same time."""
    clients: int = 0
    """Claims' devices on GPUs on which the policy is in force."""
    clients_by_mode: Mapping[Sharing, int] = field(default_factory=dict)
    """The same."""
    lost: tuple[str, ...] = ()
    """GPUs that others won: which, to whom, why."""
    without_offers: int = 0
    """GPUs won that can provide none of the policy's offers."""
    failed: tuple[tuple[str, str], ...] = ()
    """GPUs on which a selector failed, and how."""
    refused: tuple[RefusedOffer, ...] = ()
    """Offers that the GPUs won cannot provide."""
    lagging: LaggingNode | None = None
    """Why the policy is not in force here yet."""
    held_back: bool = False
    """Whether the policy may not begin here yet."""
    changing: bool = False
    """Whether pods are being evicted, or GPUs repartitioned."""
    failing: tuple[str, ...] = ()
    """GPUs that cannot be used, or not in this mode, and why."""
    stops: bool = False
    """Whether they count against rollout.maxUnavailable."""
    not_evicted: tuple[str, ...] = ()
    """Claims that block the change, and that Kubernetes does not evict."""
    planned: NodePlan | None = None
    """What would change if the policy was not suspended."""
    undecided: str | None = None
    """Why nothing can be decided here."""

    @property
    def is_ready(self) -> bool:
        return self.selected and self.won > 0 and self.lagging is None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedNode:
    """All that was decided for a node."""

    gpus: tuple[GpuSharing, ...]
    """As they are to be written."""
    admitted: tuple[GpuSharing, ...]
    """The reported ones, without those who hold them."""
    rollout: NodeRollout
    held_back: Collection[str]
    """Policies that may not begin here yet."""
    selected_by: AbstractSet[str]
    """Policies that select the node."""
    selections: Mapping[str, Selection]
    plans: Mapping[str, NodePlan]
    unguarded_wait: float | None = None
    """The seconds for which a device closes that nobody holds; None: the closing guard makes it short."""


class _Case(NamedTuple):
    """The inputs of a GPU's part."""

    decided: GpuSharing
    """Without those who hold it."""
    change: GpuChange


@dataclass(frozen=True, slots=True, kw_only=True)
class _GpuPart:
    """A GPU as policies see it."""

    case: _Case
    policy: str | None
    """Who has it."""
    to: str | None
    """Who gets it in the end."""
    counted: bool
    places: int
    late: bool
    waiting: bool
    changing: bool
    failure: str | None
    stops: bool
    not_evicted: tuple[Hold, ...]


ContributionMemo: TypeAlias = Memo[_Case, _GpuPart]


def contributions(
    policies: Mapping[str, ExaminedPolicy],
    view: NodeView,
    decided: DecidedNode,
    memo: ContributionMemo | None = None,
) -> Mapping[str, Contribution]:
    """By policy; only of those that the node concerns."""
    clients = _clients_by_policy(view, decided.gpus)
    changes = decided.rollout.changes
    cases = {gpu.uuid: _Case(gpu, change) for gpu, change in zip(decided.admitted, changes, strict=True)}
    parts = tuple((memo or Memo()).map(_gpu_part, cases))
    concerned = (
        {gpu.policy.name for gpu in decided.gpus if gpu.policy}
        | {loser.policy for gpu in decided.admitted for loser in gpu.losers}
        | {change.policy for change in changes}
        | clients.keys()
    )
    lost = _lost_by_policy(view.name, decided.admitted)
    return {
        policy: _contribution(policy, view, decided, parts, lost=lost.get(policy, ()), clients=clients.get(policy, {}))
        for policy in policies.keys() & (decided.selected_by | concerned)
    }


def _gpu_part(case: _Case) -> _GpuPart:
    entry, change = case
    return _GpuPart(
        case=case,
        policy=entry.policy.name if entry.policy else None,
        to=change.after.policy.name if change.after.policy else None,
        counted=entry.offers is not None and _is_counted(entry.offers),
        places=_places(entry),
        late=is_late(entry, change.gpu),
        waiting=not change.is_applied,
        changing=is_changing(entry, change.gpu),
        failure=failure(change.gpu.status),
        stops=counts_as_unavailable(entry, change.after, change.gpu),
        not_evicted=_not_evicted(entry, change.gpu),
    )


def _contribution(
    policy: str,
    view: NodeView,
    decided: DecidedNode,
    gpus: Sequence[_GpuPart],
    *,
    lost: Sequence[str],
    clients: Mapping[Sharing, int],
) -> Contribution:
    selection = decided.selections.get(policy)
    won = [gpu for gpu in gpus if gpu.policy == policy]
    return Contribution(
        selected=policy in decided.selected_by,
        won=len(won),
        coming=sum(gpu.to == policy != gpu.policy for gpu in gpus),
        counted=any(gpu.counted for gpu in won),
        places=sum(gpu.places for gpu in won),
        clients=sum(clients.values()),
        clients_by_mode=clients,
        lost=tuple(lost),
        without_offers=sum(gpu.places == 0 for gpu in won),
        failed=tuple((f"{uuid} of {view.name}", why) for uuid, why in selection.failed.items()) if selection else (),
        refused=tuple(
            RefusedOffer(refusal.reason, f"{gpu.case.decided.uuid} of {view.name}", refusal.message)
            for gpu in won
            for refusal in gpu.case.decided.refused
        ),
        lagging=lagging(
            view.name,
            late=[Late(gpu.case.decided, gpu.case.change.gpu) for gpu in won if gpu.late],
            waiting=[gpu.case.change for gpu in gpus if gpu.waiting and gpu.case.change.policy == policy],
            held=policy in decided.held_back,
            not_ready_since=view.not_ready_since,
            unguarded_wait=decided.unguarded_wait,
        ),
        held_back=policy in decided.held_back,
        changing=any(gpu.changing for gpu in won),
        failing=tuple(
            f"{gpu.case.decided.uuid} of {view.name}: {gpu.failure}" for gpu in won if gpu.failure is not None
        ),
        stops=any(gpu.stops for gpu in won),
        not_evicted=tuple(
            f"claim {display_name(hold.claim)} on {hold.result.device} of {view.name}"
            for gpu in won
            for hold in gpu.not_evicted
        ),
        planned=decided.plans.get(policy),
    )


def _lost_by_policy(node: str, gpus: Sequence[GpuSharing]) -> Mapping[str, Sequence[str]]:
    """At once for all: of hundreds of policies, each may have lost each GPU."""
    lost: defaultdict[str, list[str]] = defaultdict(list)
    for gpu in gpus:
        winner = gpu.policy.name if gpu.policy else "nobody"
        for loser in gpu.losers:
            lost[loser.policy].append(f"{gpu.uuid} of {node} to {winner} ({loser.reason})")
    return lost


def _not_evicted(entry: GpuSharing, gpu: GpuView) -> tuple[Hold, ...]:
    """Holds whose pods should be evicted, but tolerate that for good."""
    if entry.drain is None:
        return ()
    return tuple(hold for hold in blocking_holds(entry, gpu) if tolerates(hold.result, names.DRAINING))


def _clients_by_policy(view: NodeView, decided: Sequence[GpuSharing]) -> Mapping[str, Mapping[Sharing, int]]:
    """Of the policies in force, not of those to come."""
    in_force = {gpu.uuid: gpu.policy.name for gpu in view.sharing.status.gpus if gpu.policy}
    modes: defaultdict[str, list[Sharing]] = defaultdict(list)
    for gpu in decided:
        if gpu.allocated and gpu.uuid in in_force:
            found = [names.sharing_of_device(device.device) for device in gpu.allocated]
            modes[in_force[gpu.uuid]] += filter(None, found)
    return {policy: Counter(found) for policy, found in modes.items()}


def _is_counted(offers: Offers) -> bool:
    cut_on_demand = offers.mig is not None and offers.mig.layout is None
    ways = (offers.exclusive, offers.time_slicing, offers.mps, offers.mig)
    return cut_on_demand or sum(way is not None for way in ways) > 1


def _places(gpu: GpuSharing) -> int:
    if gpu.offers is None:
        return 1
    if gpu.offers == Offers():
        return 0
    shared = [offer.max_clients for offer in (gpu.offers.time_slicing, gpu.offers.mps) if offer]
    cut = [sum(gpu.offers.mig.layout.values())] if gpu.offers.mig and gpu.offers.mig.layout else []
    return max([*shared, *cut, 1])
