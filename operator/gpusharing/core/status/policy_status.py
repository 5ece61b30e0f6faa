"""What became of a policy: conditions with reasons from closed lists, and messages that say what to do."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gpusharing.api import names
from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.reasons import ConditionReason
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.policy_status import (
    ClientCount,
    GpuCount,
    LastReady,
    NodeCount,
    SharingPolicyStatus,
)
from gpusharing.api.sharing.rollout import RolloutMode
from gpusharing.core.policies.policy import ExaminedPolicy, Objection
from gpusharing.core.reasons import (
    AcceptedReason,
    Complaint,
    ConditionType,
    ConflictedReason,
    DegradedReason,
    ProgressingReason,
    ReadyReason,
)
from gpusharing.core.rollout.plan import plan
from gpusharing.core.status.totals import Totals
from gpusharing.core.text import counted, listed, listed_by_cause

_WEIGHT: Final = {reason: weight for weight, reason in enumerate(DegradedReason)}
_MOST_LAGGING: Final = 10
# The first minor of Kubernetes whose scheduler needs not look at all nodes' counters, and how many it takes before that
# is felt.
_COUNTS_FAST: Final = 37
_COUNTED_NODES: Final = 20


class Finding(NamedTuple):
    """A condition without its formalities."""

    reason: ConditionReason
    message: str = ""

    @property
    def status(self) -> ConditionStatus:
        return ConditionStatus.TRUE if self.reason.is_true else ConditionStatus.FALSE


def policy_status(
    examined: ExaminedPolicy,
    totals: Totals,
    complaints: Sequence[Complaint] = (),
    *,
    guards_pending: bool = False,
    minor: int,
    now: str,
) -> SharingPolicyStatus:
    """The new status, or the present one if only the time would change. `guards_pending`: the guards were not seen to
    hold for the tenants of this policy yet."""
    policy = examined.policy
    ready = _ready(examined, totals, guards_pending=guards_pending)
    findings = {
        ConditionType.ACCEPTED: _accepted(examined.objection),
        ConditionType.READY: ready,
        ConditionType.PROGRESSING: _progressing(examined, totals),
        ConditionType.CONFLICTED: _conflicted(totals),
        ConditionType.DEGRADED: _degraded(totals, complaints, minor),
    }
    conditions = tuple(_condition(policy, type_, finding, now=now) for type_, finding in findings.items())
    is_planned = examined.objection is None and policy.spec.rollout.mode is RolloutMode.PLAN
    return SharingPolicyStatus(
        observed_generation=policy.metadata.generation,
        conditions=conditions,
        nodes=NodeCount(
            selected=totals.selected,
            ready=totals.ready,
            changing=totals.changing,
            held_back=totals.held_back,
            failing=totals.broken,
        ),
        gpus=GpuCount(won=totals.won, lost=len(totals.lost)),
        clients=ClientCount(current=totals.clients, max=totals.places),
        lagging=tuple(totals.lagging[:_MOST_LAGGING]),
        plan=plan(totals.planned) if is_planned else None,
        last_ready=_last_ready(examined) if ready.reason == ReadyReason.READY else policy.status.last_ready,
    )


def _last_ready(examined: ExaminedPolicy) -> LastReady | None:
    policy = examined.policy
    last, generation = policy.status.last_ready, policy.metadata.generation
    # An edit of a suspended policy is not in force: its last ready spec counts.
    if examined.is_suspended or (last and last.generation == generation):
        return last
    # As people would write it: without what is so anyway.
    spec = policy.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return LastReady(generation=generation, spec=spec)


def _accepted(objection: Objection | None) -> Finding:
    if objection:
        return Finding(*objection)
    return Finding(AcceptedReason.ACCEPTED)


def _ready(examined: ExaminedPolicy, totals: Totals, *, guards_pending: bool) -> Finding:
    nodes = counted(totals.selected, "node")
    if examined.objection:
        return Finding(ReadyReason.NOT_ACCEPTED, "see condition Accepted")
    if not totals.selected:
        return Finding(
            ReadyReason.NO_MATCHING_NODES,
            "no node with GPUs matches spec.nodes: label a node, or wait for its agent to report",
        )
    if totals.planned:
        is_paused = examined.policy.spec.rollout.paused
        return Finding(ReadyReason.PAUSED if is_paused else ReadyReason.PLAN, _while_suspended(examined, totals))
    if without := _without_gpus(totals, nodes):
        return Finding(*without)
    if guards_pending:
        return Finding(
            ReadyReason.WAITING_FOR_GUARDS,
            "the admission policies do not hold for this policy's tenants on all API servers yet",
        )
    if totals.lagging:
        return Finding(
            ReadyReason.WAITING_FOR_NODES,
            f"not in force on {len(totals.lagging)} of {nodes} yet: {_lagging(totals)}",
        )
    message = f"in force on {counted(totals.won, 'GPU')} of {counted(totals.winning, 'node')}"
    if totals.without_offers:
        message += f", but no offer fits {totals.without_offers} of them: see condition Degraded"
    return Finding(ReadyReason.READY, message)


def _without_gpus(totals: Totals, nodes: str) -> tuple[ReadyReason, str] | None:
    """Why nobody can get a GPU by this policy."""
    if totals.coming:
        return None
    if not totals.won and not totals.lost:
        return (
            ReadyReason.NO_MATCHING_GPUS,
            f"no GPU on {nodes} of spec.nodes matches spec.gpus.selectors: {_why_nothing_matches(totals)}",
        )
    if not totals.won:
        return (
            ReadyReason.LOST_ALL_GPUS,
            f"other policies won every GPU that this policy selects ({len(totals.lost)}): see condition Conflicted",
        )
    if totals.won == totals.without_offers:
        return (
            ReadyReason.NOTHING_OFFERED,
            f"no offer of this policy fits any of the {counted(totals.won, 'GPU')} that it won: see condition Degraded",
        )
    return None


def _why_nothing_matches(totals: Totals) -> str:
    if totals.failed:
        return f"a selector fails on {counted(len(totals.failed), 'GPU')}: see condition Degraded"
    return "compare the selectors with status.gpus[].attributes of the NodeSharings"


def _progressing(examined: ExaminedPolicy, totals: Totals) -> Finding:
    rollout = examined.policy.spec.rollout
    if examined.objection:
        return Finding(ProgressingReason.STOPPED, "see condition Accepted")
    if rollout.paused:
        return Finding(ProgressingReason.PAUSED, _while_suspended(examined, totals))
    if rollout.mode is RolloutMode.PLAN:
        return Finding(ProgressingReason.PLAN, _while_suspended(examined, totals))
    if totals.held_back and not totals.moving:
        return Finding(
            ProgressingReason.STOPPED,
            f"rollout stopped: failing nodes use up rollout.maxUnavailable, {counted(totals.held_back, 'node')} held "
            "back. Repair the failing nodes, remove them from spec.nodes, correct the policy, or raise maxUnavailable. "
            f"Failing: {_failing(totals)}",
        )
    if totals.moving or totals.held_back:
        then = f", {totals.held_back} more to follow" if totals.held_back else ""
        return Finding(
            ProgressingReason.ROLLING_OUT,
            f"changing {counted(totals.changing, 'node')}{then}",
        )
    if totals.lagging:
        return Finding(ProgressingReason.WAITING, _lagging(totals))
    return Finding(ProgressingReason.COMPLETE)


def _while_suspended(examined: ExaminedPolicy, totals: Totals) -> str:
    """Changes that a suspended policy does not make, and the remedy."""
    do = "set rollout.paused to false" if examined.policy.spec.rollout.paused else "set rollout.mode to Apply"
    if not totals.planned:
        return "nothing would change"
    gpus = [gpu for one in totals.planned for gpu in one.node.gpus]
    changes = f"{counted(len(gpus), 'GPU')} on {counted(len(totals.planned), 'node')} would change"
    blocked = sum(bool(gpu.claims) for gpu in gpus)
    return f"{changes}, {blocked or 'none'} of them blocked by claims; {do} to roll this out"


def _conflicted(totals: Totals) -> Finding:
    if not totals.lost:
        return Finding(ConflictedReason.NO_CONFLICT)
    message = f"lost {counted(len(totals.lost), 'GPU')}: {listed(totals.lost)}"
    return Finding(ConflictedReason.LOST_GPUS, message)


def _degraded(totals: Totals, complaints: Sequence[Complaint], minor: int) -> Finding:
    # The sort is stable: messages of one reason stay in their order.
    found = sorted([*complaints, *_degradations(totals, minor)], key=lambda one: _WEIGHT[one[0]])
    if not found:
        return Finding(DegradedReason.NOT_DEGRADED)
    return Finding(found[0][0], "; ".join(message for _, message in found))


def _degradations(totals: Totals, minor: int) -> Iterator[tuple[DegradedReason, str]]:
    if totals.undecided:
        nodes = counted(len(totals.undecided), "node")
        why = listed(totals.undecided, separator="; ")
        message = f"the operator cannot decide on {nodes}, which stay unchanged; report this: {why}"
        yield DegradedReason.INTERNAL_ERROR, message
    if totals.failing:
        yield DegradedReason.NODES_FAILING, f"{counted(totals.broken, 'node')} failing: {_failing(totals)}"
    if totals.not_evicted:
        message = (
            f"claims tolerate taint {names.DRAINING} indefinitely, so Kubernetes does not evict their pods; delete the "
            f"pods of {listed(totals.not_evicted)}"
        )
        yield DegradedReason.EVICTION_TOLERATED, message
    if totals.failed:
        gpus = f"{counted(len(totals.failed), 'GPU')}, left unchanged"
        why = listed_by_cause(totals.failed)
        yield DegradedReason.SELECTOR_ERROR, f"a selector of spec.gpus.selectors fails on {gpus}: {why}"
    if totals.refused:
        refused = sorted(totals.refused, key=lambda one: _WEIGHT[DegradedReason(one.reason)])
        why = listed_by_cause([(one.gpu, one.message) for one in refused])
        yield DegradedReason(refused[0].reason), f"some offers cannot be provided on some GPUs: {why}"
    if minor < _COUNTS_FAST and totals.counted > _COUNTED_NODES:
        message = (
            f"Kubernetes 1.{minor} schedules slowly if a GPU offers several modes, as on "
            f"{counted(totals.counted, 'node')} of this policy: upgrade to 1.{_COUNTS_FAST}, or offer one mode on each "
            "GPU"
        )
        yield DegradedReason.SLOW_SCHEDULER, message


def _failing(totals: Totals) -> str:
    return listed(totals.failing, separator="; ")


def _lagging(totals: Totals) -> str:
    return listed([f"{late.node}: {late.message}" for late in totals.lagging], separator="; ")


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
