"""What became of a policy: conditions with reasons from closed lists, and messages that say what to do."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.sharing import ClientCount, GpuCount, NodeCount, SharingPolicy, SharingPolicyStatus
from gpusharing.core.acceptance import Candidate, Objection
from gpusharing.core.complaints import Complaint
from gpusharing.core.listed import listed
from gpusharing.core.tally import ByNode, Tally


class ReadyReason(StrEnum):
    READY = "Ready"
    NOT_ACCEPTED = "NotAccepted"
    NO_MATCHING_NODES = "NoMatchingNodes"
    NO_MATCHING_GPUS = "NoMatchingGpus"
    LOST_ALL_GPUS = "LostAllGpus"
    WAITING_FOR_GUARDS = "WaitingForGuards"
    WAITING_FOR_NODES = "WaitingForNodes"


class Finding(NamedTuple):
    """A condition without its formalities."""

    status: ConditionStatus
    reason: str
    message: str = ""


def policy_status(
    candidate: Candidate, tally: Tally, complaints: Sequence[Complaint] = (), *, untold: bool = False, now: str
) -> SharingPolicyStatus:
    """The status to be; where nothing but the time would change, it is the one that is there. `untold`: admission does
    not know yet what it says of its tenants."""
    policy = candidate.policy
    findings = {
        "Accepted": _accepted(candidate.objection),
        "Ready": _ready(candidate.objection, tally, untold=untold),
        "Conflicted": _conflicted(tally),
        "Degraded": _degraded(tally, complaints),
    }
    conditions = tuple(_condition(policy, type_, finding, now=now) for type_, finding in findings.items())
    return SharingPolicyStatus(
        observed_generation=policy.metadata.generation,
        conditions=conditions,
        nodes=NodeCount(selected=tally.selected, ready=tally.ready),
        gpus=GpuCount(won=tally.won, lost=tally.lost.count),
        clients=ClientCount(current=tally.clients, max=tally.places),
    )


def _accepted(objection: Objection | None) -> Finding:
    if objection:
        return Finding(ConditionStatus.FALSE, *objection)
    return Finding(ConditionStatus.TRUE, "Accepted")


def _ready(objection: Objection | None, tally: Tally, *, untold: bool) -> Finding:
    def not_ready(reason: ReadyReason, message: str) -> Finding:
        return Finding(ConditionStatus.FALSE, reason, message)

    nodes = _count(tally.selected, "node")
    if objection:
        return not_ready(ReadyReason.NOT_ACCEPTED, "see condition Accepted")
    if not tally.selected:
        return not_ready(
            ReadyReason.NO_MATCHING_NODES,
            "no node with GPUs matches spec.nodes: label a node, or wait for its agent to report",
        )
    if not tally.won and not tally.lost.count:
        return not_ready(
            ReadyReason.NO_MATCHING_GPUS, f"no GPU of the {nodes} in spec.nodes matches spec.gpus.selectors"
        )
    if not tally.won:
        return not_ready(
            ReadyReason.LOST_ALL_GPUS,
            f"other policies won {_count(tally.lost.count, 'GPU')} that it wants: see Conflicted",
        )
    if untold:
        return not_ready(ReadyReason.WAITING_FOR_GUARDS, "admission does not know yet what it says of its tenants")
    if tally.lagging.count:
        return not_ready(
            ReadyReason.WAITING_FOR_NODES,
            f"{tally.lagging.count} of {nodes} not there yet: {_told(tally.lagging, separator='; ')}",
        )
    message = f"in force on {_count(tally.won, 'GPU')} of {_count(tally.winning, 'node')}"
    return Finding(ConditionStatus.TRUE, ReadyReason.READY, message)


def _conflicted(tally: Tally) -> Finding:
    if not tally.lost.count:
        return Finding(ConditionStatus.FALSE, "NoConflict")
    message = f"lost {_count(tally.lost.count, 'GPU')}: {_told(tally.lost)}"
    return Finding(ConditionStatus.TRUE, "LostGpus", message)


def _degraded(tally: Tally, complaints: Sequence[Complaint]) -> Finding:
    if complaints:
        told = listed([complaint.message for complaint in complaints], separator="; ")
        return Finding(ConditionStatus.TRUE, complaints[0].reason, told)
    if tally.failed.count:
        message = (
            f"a selector has no answer for {_count(tally.failed.count, 'GPU')}, which stay as they are: "
            f"{_told(tally.failed, separator='; ')}"
        )
        return Finding(ConditionStatus.TRUE, "SelectorError", message)
    if tally.refused.count:
        first = tally.refused.first
        told = listed([said for _, said in first], of=tally.refused.count, separator="; ")
        return Finding(ConditionStatus.TRUE, first[0][0], f"not offered in every way: {told}")
    return Finding(ConditionStatus.FALSE, "NotDegraded")


def _told(said: ByNode[str], *, separator: str = ", ") -> str:
    return listed(said.first, of=said.count, separator=separator)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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
