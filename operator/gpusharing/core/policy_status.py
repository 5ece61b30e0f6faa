"""What became of a policy: conditions with reasons from closed lists, and messages that say what to do."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from gpusharing.api import names
from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.sharing import (
    ClientCount,
    GpuCount,
    GpuSharing,
    GpuStatus,
    NodeCount,
    NodeSharingSpec,
    Offers,
    SharingPolicy,
    SharingPolicyStatus,
)
from gpusharing.core import allocation
from gpusharing.core.acceptance import Candidate, Objection
from gpusharing.core.selection import Selection
from gpusharing.core.world import NodeView

_SHOWN: Final = 3
"""So many nodes or GPUs are named in a message; the rest is counted."""


class ReadyReason(StrEnum):
    READY = "Ready"
    NOT_ACCEPTED = "NotAccepted"
    NO_MATCHING_NODES = "NoMatchingNodes"
    NO_MATCHING_GPUS = "NoMatchingGpus"
    LOST_ALL_GPUS = "LostAllGpus"
    WAITING_FOR_NODES = "WaitingForNodes"


class Finding(NamedTuple):
    """A condition without its formalities."""

    status: ConditionStatus
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodeShare:
    """A node as one policy sees it."""

    view: NodeView
    selected: bool
    failed: Mapping[str, str]
    """GPUs on which a selector failed, and how."""
    won: tuple[GpuSharing, ...]
    lost: tuple[tuple[GpuSharing, str], ...]
    """GPUs that others won, and the reason."""
    lagging: str | None
    """Why what was won here is not in force yet."""


def policy_status(candidate: Candidate, shares: Sequence[NodeShare], *, clients: int, now: str) -> SharingPolicyStatus:
    """The status to be; where nothing but the time would change, it is the one that is there."""
    policy = candidate.policy
    won = sum(len(share.won) for share in shares)
    lost = sum(len(share.lost) for share in shares)
    selected = [share for share in shares if share.selected]
    ready = [share for share in selected if share.won and share.lagging is None]
    findings = {
        "Accepted": _accepted(candidate.objection),
        "Ready": _ready(candidate.objection, selected, won=won, lost=lost),
        "Conflicted": _conflicted(shares, lost=lost),
        "Degraded": _degraded(selected),
    }
    conditions = tuple(_condition(policy, type_, finding, now=now) for type_, finding in findings.items())
    return SharingPolicyStatus(
        observed_generation=policy.metadata.generation,
        conditions=conditions,
        nodes=NodeCount(selected=len(selected), ready=len(ready)),
        gpus=GpuCount(won=won, lost=lost),
        clients=ClientCount(current=clients, max=sum(_places(gpu) for share in shares for gpu in share.won)),
    )


def node_share(
    candidate: Candidate, view: NodeView, decided: NodeSharingSpec, selection: Selection | None
) -> NodeShare:
    """`selection`: what the policy wants of the node; None if nothing, or if it may not want anything."""
    name = candidate.name
    won = tuple(gpu for gpu in decided.gpus if gpu.policy and gpu.policy.name == name)
    lost = tuple((gpu, loser.reason) for gpu in decided.gpus for loser in gpu.losers if loser.policy == name)
    selected = bool(decided.gpus) and candidate.policy.spec.nodes.matches(view.labels)
    failed = selection.failed if selection else {}
    return NodeShare(view, selected, failed, won, lost, _lagging(view, won))


def clients_by_policy(views: Iterable[NodeView], driver: str) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for view in views:
        policies = {gpu.slot: gpu.policy.name for gpu in view.sharing.status.gpus if gpu.policy}
        for claim in view.claims:
            for result in allocation.results_on(claim, view.name, driver):
                slot = names.slot_of_device(result.device)
                if not result.admin_access and slot in policies:
                    counts[policies[slot]] = counts.get(policies[slot], 0) + 1
    return counts


def _places(gpu: GpuSharing) -> int:
    if gpu.offers is None:
        return 1
    shared = [offer.max_clients for offer in (gpu.offers.time_slicing, gpu.offers.mps) if offer]
    cut = [sum(gpu.offers.mig.layout.values())] if gpu.offers.mig and gpu.offers.mig.layout else []
    return max([*shared, *cut, 1])


def _lagging(view: NodeView, won: Sequence[GpuSharing]) -> str | None:
    status = view.sharing.status
    reported = {gpu.uuid: gpu for gpu in status.gpus}
    others = {gpu.uuid for gpu in won if gpu.uuid not in reported or reported[gpu.uuid].policy != gpu.policy}
    # What goes to another pool is its former policy's until nothing of it is left there.
    leaving = {uuid for uuid in others if uuid in reported and _is_leaving(reported[uuid])}
    if others - leaving:
        return "its agent has not acted yet"
    waiting = [gpu.uuid for gpu in won if gpu.uuid in leaving or not _can_be_had(gpu, reported[gpu.uuid])]
    held = {names.slot_of_device(device.device) for claim in status.claims for device in claim.settings}
    in_use = [uuid for uuid in waiting if reported[uuid].slot in held]
    if in_use:
        return f"{_listed(in_use)} in use: what is offered changes when the last claim has gone"
    return f"{_listed(waiting)} withdrawing what was offered before, or being cut" if waiting else None


def _is_leaving(status: GpuStatus) -> bool:
    return bool(status.published) and all(device.closing_since is not None for device in status.published)


def _can_be_had(gpu: GpuSharing, status: GpuStatus) -> bool:
    """Whether somebody new can get what is offered, or who got it has all of it."""
    nothing_offered = gpu.offers is None or gpu.offers == Offers()
    return nothing_offered or any(device.closing_since is None for device in status.published)


def _accepted(objection: Objection | None) -> Finding:
    if objection:
        return Finding(ConditionStatus.FALSE, *objection)
    return Finding(ConditionStatus.TRUE, "Accepted")


def _ready(objection: Objection | None, selected: Sequence[NodeShare], *, won: int, lost: int) -> Finding:
    def not_ready(reason: ReadyReason, message: str) -> Finding:
        return Finding(ConditionStatus.FALSE, reason, message)

    if objection:
        return not_ready(ReadyReason.NOT_ACCEPTED, "see condition Accepted")
    if not selected:
        return not_ready(
            ReadyReason.NO_MATCHING_NODES,
            "no node with GPUs matches spec.nodes: label a node, or wait for its agent to report",
        )
    if not won and not lost:
        return not_ready(
            ReadyReason.NO_MATCHING_GPUS,
            f"no GPU of the {_count(len(selected), 'node')} in spec.nodes matches spec.gpus.selectors",
        )
    if not won:
        return not_ready(
            ReadyReason.LOST_ALL_GPUS, f"other policies won {_count(lost, 'GPU')} that it wants: see Conflicted"
        )
    lagging = [f"{share.view.name}: {share.lagging}" for share in selected if share.lagging]
    if lagging:
        return not_ready(
            ReadyReason.WAITING_FOR_NODES,
            f"{len(lagging)} of {_count(len(selected), 'node')} not there yet: {_listed(lagging, separator='; ')}",
        )
    nodes = sum(1 for share in selected if share.won)
    message = f"in force on {_count(won, 'GPU')} of {_count(nodes, 'node')}"
    return Finding(ConditionStatus.TRUE, ReadyReason.READY, message)


def _conflicted(shares: Sequence[NodeShare], *, lost: int) -> Finding:
    if not lost:
        return Finding(ConditionStatus.FALSE, "NoConflict")
    losses = [
        f"{gpu.uuid} of {share.view.name} to {gpu.policy.name if gpu.policy else 'nobody'} ({reason})"
        for share in shares
        for gpu, reason in share.lost
    ]
    return Finding(ConditionStatus.TRUE, "LostGpus", f"lost {_count(lost, 'GPU')}: {_listed(losses)}")


def _degraded(selected: Sequence[NodeShare]) -> Finding:
    failures = [f"{uuid} of {share.view.name}: {why}" for share in selected for uuid, why in share.failed.items()]
    if failures:
        message = (
            f"a selector has no answer for {_count(len(failures), 'GPU')}, which stay as they are: "
            f"{_listed(failures, separator='; ')}"
        )
        return Finding(ConditionStatus.TRUE, "SelectorError", message)
    refused = [
        (refusal, f"{gpu.uuid} of {share.view.name}: {refusal.message}")
        for share in selected
        for gpu in share.won
        for refusal in gpu.refused
    ]
    if refused:
        message = f"not offered in every way: {_listed([told for _, told in refused], separator='; ')}"
        return Finding(ConditionStatus.TRUE, refused[0][0].reason, message)
    return Finding(ConditionStatus.FALSE, "NotDegraded")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _listed(items: Sequence[str], *, separator: str = ", ") -> str:
    rest = len(items) - _SHOWN
    return separator.join(items[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _condition(policy: SharingPolicy, type_: str, finding: Finding, *, now: str) -> Condition:
    before = next((condition for condition in policy.status.conditions if condition.type == type_), None)
    unchanged = before is not None and before.status == finding.status
    return Condition(
        type=type_,
        status=finding.status,
        reason=finding.reason,
        message=finding.message,
        observed_generation=policy.metadata.generation,
        last_transition_time=before.last_transition_time if before and unchanged else now,
    )
