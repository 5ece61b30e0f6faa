"""What became of a policy: conditions with reasons from closed lists, and messages that say what to do."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gpusharing.api import names
from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.policy_status import (
    ClientCount,
    GpuCount,
    LaggingNode,
    LastReady,
    NodeCount,
    SharingPolicyStatus,
)
from gpusharing.api.sharing.rollout import RolloutMode
from gpusharing.core.complaints import Complaint
from gpusharing.core.policies.policy import Candidate, Objection
from gpusharing.core.reasons import (
    AcceptedReason,
    ConditionType,
    ConflictedReason,
    DegradedReason,
    ProgressingReason,
    ReadyReason,
)
from gpusharing.core.rollout.plan import plan
from gpusharing.core.status.totals import ByNode, Tally
from gpusharing.core.text import listed

_MOST_LAGGING: Final = 10
# The first minor of Kubernetes whose scheduler needs not look at all nodes' counters, and how many it takes before that
# is felt.
_COUNTS_FAST: Final = 37
_COUNTED_NODES: Final = 20


class Finding(NamedTuple):
    """A condition without its formalities."""

    status: ConditionStatus
    reason: str
    message: str = ""


def policy_status(
    candidate: Candidate,
    tally: Tally,
    complaints: Sequence[Complaint] = (),
    *,
    untold: bool = False,
    minor: int,
    now: str,
) -> SharingPolicyStatus:
    """The status to be; where nothing but the time would change, it is the one that is there. `untold`: admission does
    not know yet what it says of its tenants."""
    policy = candidate.policy
    ready = _ready(candidate, tally, untold=untold)
    findings = {
        ConditionType.ACCEPTED: _accepted(candidate.objection),
        ConditionType.READY: ready,
        ConditionType.PROGRESSING: _progressing(candidate, tally),
        ConditionType.CONFLICTED: _conflicted(tally),
        ConditionType.DEGRADED: _degraded(tally, complaints, minor),
    }
    conditions = tuple(_condition(policy, type_, finding, now=now) for type_, finding in findings.items())
    is_planned = candidate.objection is None and policy.spec.rollout.mode is RolloutMode.PLAN
    return SharingPolicyStatus(
        observed_generation=policy.metadata.generation,
        conditions=conditions,
        nodes=NodeCount(
            selected=tally.selected,
            ready=tally.ready,
            changing=tally.changing,
            held_back=tally.held_back,
            failing=tally.broken,
        ),
        gpus=GpuCount(won=tally.won, lost=tally.lost.count),
        clients=ClientCount(current=tally.clients, max=tally.places),
        lagging=tuple(tally.lagging.first(_MOST_LAGGING)),
        plan=plan(tally.planned.first(tally.planned.count)) if is_planned else None,
        last_ready=_last_ready(policy) if ready.reason == ReadyReason.READY else policy.status.last_ready,
    )


def _last_ready(policy: SharingPolicy) -> LastReady:
    last, generation = policy.status.last_ready, policy.metadata.generation
    if last and last.generation == generation:
        return last
    # As people would write it: without what is so anyway.
    spec = policy.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return LastReady(generation=generation, spec=spec)


def _accepted(objection: Objection | None) -> Finding:
    if objection:
        return Finding(ConditionStatus.FALSE, *objection)
    return Finding(ConditionStatus.TRUE, AcceptedReason.ACCEPTED)


def _ready(candidate: Candidate, tally: Tally, *, untold: bool) -> Finding:
    def not_ready(reason: ReadyReason, message: str) -> Finding:
        return Finding(ConditionStatus.FALSE, reason, message)

    nodes = _count(tally.selected, "node")
    if candidate.objection:
        return not_ready(ReadyReason.NOT_ACCEPTED, "see condition Accepted")
    if not tally.selected:
        return not_ready(
            ReadyReason.NO_MATCHING_NODES,
            "no node with GPUs matches spec.nodes: label a node, or wait for its agent to report",
        )
    if tally.planned.count:
        is_paused = candidate.policy.spec.rollout.paused
        return not_ready(ReadyReason.PAUSED if is_paused else ReadyReason.PLAN, _resting(candidate, tally))
    if not tally.won and not tally.coming and not tally.lost.count:
        return not_ready(
            ReadyReason.NO_MATCHING_GPUS, f"no GPU of the {nodes} in spec.nodes matches spec.gpus.selectors"
        )
    if not tally.won and not tally.coming:
        return not_ready(
            ReadyReason.LOST_ALL_GPUS,
            f"other policies won {_count(tally.lost.count, 'GPU')} that it wants: see Conflicted",
        )
    if untold:
        return not_ready(ReadyReason.WAITING_FOR_GUARDS, "admission does not know yet what it says of its tenants")
    if tally.lagging.count:
        return not_ready(
            ReadyReason.WAITING_FOR_NODES,
            f"{tally.lagging.count} of {nodes} not there yet: {_lagging(tally.lagging)}",
        )
    message = f"in force on {_count(tally.won, 'GPU')} of {_count(tally.winning, 'node')}"
    return Finding(ConditionStatus.TRUE, ReadyReason.READY, message)


def _progressing(candidate: Candidate, tally: Tally) -> Finding:
    def rests(reason: ProgressingReason, message: str = "") -> Finding:
        return Finding(ConditionStatus.FALSE, reason, message)

    rollout = candidate.policy.spec.rollout
    if candidate.objection:
        return rests(ProgressingReason.STOPPED, "see condition Accepted")
    if rollout.paused:
        return rests(ProgressingReason.PAUSED, _resting(candidate, tally))
    if rollout.mode is RolloutMode.PLAN:
        return rests(ProgressingReason.PLAN, _resting(candidate, tally))
    if tally.held_back and not tally.moving:
        return rests(
            ProgressingReason.STOPPED,
            f"{_count(tally.held_back, 'node')} held back, because as many fail as may be unavailable: mend them, take "
            f"them out of spec.nodes, correct the policy, or raise rollout.maxUnavailable: {_failing(tally)}",
        )
    if tally.moving or tally.held_back:
        then = f", and {tally.held_back} more after them" if tally.held_back else ""
        return Finding(
            ConditionStatus.TRUE,
            ProgressingReason.ROLLING_OUT,
            f"{_count(tally.changing, 'node')} being changed{then}",
        )
    if tally.lagging.count:
        return Finding(ConditionStatus.TRUE, ProgressingReason.WAITING, _lagging(tally.lagging))
    return rests(ProgressingReason.COMPLETE)


def _resting(candidate: Candidate, tally: Tally) -> str:
    """What is not done while the policy rests, and how it comes to be done."""
    do = "set rollout.paused to false" if candidate.policy.spec.rollout.paused else "set rollout.mode to Apply"
    if not tally.planned.count:
        return "nothing would change"
    gpus = sum(len(one.node.gpus) for one in tally.planned.first(tally.planned.count))
    changes = f"{_count(gpus, 'GPU')} of {_count(tally.planned.count, 'node')} would change"
    return f"{changes}: to have it so, {do}"


def _conflicted(tally: Tally) -> Finding:
    if not tally.lost.count:
        return Finding(ConditionStatus.FALSE, ConflictedReason.NO_CONFLICT)
    message = f"lost {_count(tally.lost.count, 'GPU')}: {_told(tally.lost)}"
    return Finding(ConditionStatus.TRUE, ConflictedReason.LOST_GPUS, message)


def _degraded(tally: Tally, complaints: Sequence[Complaint], minor: int) -> Finding:
    found = [*complaints, *_degradations(tally, minor)]
    if not found:
        return Finding(ConditionStatus.FALSE, DegradedReason.NOT_DEGRADED)
    return Finding(ConditionStatus.TRUE, found[0][0], "; ".join(message for _, message in found))


def _degradations(tally: Tally, minor: int) -> Iterator[tuple[DegradedReason, str]]:
    if tally.failing.count:
        yield DegradedReason.NODES_FAILING, f"{_count(tally.broken, 'node')} failing: {_failing(tally)}"
    if tally.not_evicted.count:
        message = (
            f"Kubernetes evicts nobody who tolerates the taint {names.DRAINING} without end: delete the pods of "
            f"{_told(tally.not_evicted)}"
        )
        yield DegradedReason.EVICTION_TOLERATED, message
    if tally.failed.count:
        gpus = f"{_count(tally.failed.count, 'GPU')}, which stay as they are"
        told = _told(tally.failed, separator="; ")
        yield DegradedReason.SELECTOR_ERROR, f"a selector has no answer for {gpus}: {told}"
    if tally.refused.count:
        first = tally.refused.first()
        told = listed([said for _, said in first], of=tally.refused.count, separator="; ")
        yield DegradedReason(first[0][0]), f"not offered in every way: {told}"
    if minor < _COUNTS_FAST and tally.counted > _COUNTED_NODES:
        message = (
            f"the scheduler of Kubernetes 1.{minor} looks at the counters of all nodes for each pod and node, and "
            f"{_count(tally.counted, 'node')} offer GPUs in ways that exclude each other: upgrade to 1.{_COUNTS_FAST}, "
            "or offer one way on each GPU"
        )
        yield DegradedReason.SLOW_SCHEDULER, message


def _failing(tally: Tally) -> str:
    return _told(tally.failing, separator="; ")


def _lagging(lagging: ByNode[LaggingNode]) -> str:
    sentences = [f"{late.node}: {late.message}" for late in lagging.first()]
    return listed(sentences, of=lagging.count, separator="; ")


def _told(said: ByNode[str], *, separator: str = ", ") -> str:
    return listed(said.first(), of=said.count, separator=separator)


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
