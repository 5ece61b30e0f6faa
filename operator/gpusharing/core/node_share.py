"""What one node adds to the status of each policy."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusharing.api import names
from gpusharing.api.sharing import GpuSharing, GpuStatus, NodeSharingSpec, Offers, RefusalReason
from gpusharing.core.acceptance import Candidate
from gpusharing.core.listed import listed
from gpusharing.core.selection import Selection
from gpusharing.core.world import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """A node as one policy sees it: numbers, and sentences about it that may stand in a message."""

    selected: bool
    won: int = 0
    """GPUs."""
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
    lagging: str | None = None
    """Why what was won here is not in force yet."""

    @property
    def is_ready(self) -> bool:
        return self.selected and self.won > 0 and self.lagging is None


def node_shares(
    candidates: Sequence[Candidate],
    view: NodeView,
    decided: NodeSharingSpec,
    selections: Mapping[str, Selection],
) -> Mapping[str, NodeShare]:
    """By policy; only those to which the node is something."""
    clients = _clients_by_policy(view, decided)
    won = {gpu.policy.name for gpu in decided.gpus if gpu.policy}
    lost = {loser.policy for gpu in decided.gpus for loser in gpu.losers}
    return {
        candidate.name: _share(
            candidate.name,
            view,
            decided,
            selections.get(candidate.name),
            selected=selected,
            clients=clients[candidate.name],
        )
        for candidate in candidates
        if (selected := bool(decided.gpus) and candidate.policy.spec.nodes.matches(view.labels))
        or candidate.name in won
        or candidate.name in lost
        or candidate.name in clients
    }


def _share(
    policy: str, view: NodeView, decided: NodeSharingSpec, selection: Selection | None, *, selected: bool, clients: int
) -> NodeShare:
    won = [gpu for gpu in decided.gpus if gpu.policy and gpu.policy.name == policy]
    return NodeShare(
        selected=selected,
        won=len(won),
        places=sum(map(_places, won)),
        clients=clients,
        lost=tuple(
            f"{gpu.uuid} of {view.name} to {gpu.policy.name if gpu.policy else 'nobody'} ({loser.reason})"
            for gpu in decided.gpus
            for loser in gpu.losers
            if loser.policy == policy
        ),
        failed=tuple(f"{uuid} of {view.name}: {why}" for uuid, why in selection.failed.items()) if selection else (),
        refused=tuple(
            (refusal.reason, f"{gpu.uuid} of {view.name}: {refusal.message}") for gpu in won for refusal in gpu.refused
        ),
        lagging=_lagging(view, won),
    )


def _clients_by_policy(view: NodeView, decided: NodeSharingSpec) -> Counter[str]:
    """Of the policies in force, not of those to come."""
    in_force = {gpu.uuid: gpu.policy.name for gpu in view.sharing.status.gpus if gpu.policy}
    clients: Counter[str] = Counter()
    for gpu in decided.gpus:
        if gpu.allocated and gpu.uuid in in_force:
            clients[in_force[gpu.uuid]] += len(gpu.allocated)
    return clients


def _places(gpu: GpuSharing) -> int:
    if gpu.offers is None:
        return 1
    shared = [offer.max_clients for offer in (gpu.offers.time_slicing, gpu.offers.mps) if offer]
    cut = [sum(gpu.offers.mig.layout.values())] if gpu.offers.mig and gpu.offers.mig.layout else []
    return max([*shared, *cut, 1])


def _lagging(view: NodeView, won: Sequence[GpuSharing]) -> str | None:
    status = view.sharing.status
    reported = {gpu.uuid: gpu for gpu in status.gpus}
    not_told = [gpu for gpu in won if gpu.uuid not in reported or reported[gpu.uuid].policy != gpu.policy]
    if not_told:
        return "its agent has not acted yet"
    waiting = [gpu.uuid for gpu in won if not _can_be_had(gpu, reported[gpu.uuid])]
    held = {names.slot_of_device(device.device) for claim in status.claims for device in claim.settings}
    in_use = [uuid for uuid in waiting if reported[uuid].slot in held]
    if in_use:
        return f"{listed(in_use)} in use: what is offered changes when the last claim has gone"
    return f"{listed(waiting)} withdrawing what was offered before, or being cut" if waiting else None


def _can_be_had(gpu: GpuSharing, status: GpuStatus) -> bool:
    """Whether somebody new can get what is offered, or who got it has all of it."""
    nothing_offered = gpu.offers is None or gpu.offers == Offers()
    return nothing_offered or any(device.closing_since is None for device in status.published)
