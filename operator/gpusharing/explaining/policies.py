"""`explain policy`: where it is in force, and why not everywhere."""

from collections.abc import Sequence
from typing import Final

from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.names import Sharing, policy_class
from gpusharing.api.sharing.modes import for_mode
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.reasons import AcceptedReason, ConditionType, ReadyReason
from gpusharing.core.text import counted, listed
from gpusharing.explaining import gpus, wording
from gpusharing.explaining.explanation import Explanation, Table, worst
from gpusharing.explaining.scene import Scene
from gpusharing.findings import policies
from gpusharing.findings.finding import Finding, Reference
from gpusharing.findings.gpus import MIG_NEEDS_RESET

_OFFERS: Final = ("MODE", "CLASS", "STATE")
_COUNTS: Final = ("WHAT", "COUNT")
_EMPTY: Final = frozenset(
    {
        ReadyReason.NO_MATCHING_NODES,
        ReadyReason.NO_MATCHING_GPUS,
        ReadyReason.LOST_ALL_GPUS,
        ReadyReason.NOTHING_OFFERED,
    }
)
_SUSPENDED: Final = {ReadyReason.PAUSED: "paused: false", ReadyReason.PLAN: "mode: Apply"}


def explain(policy: SharingPolicy, scene: Scene) -> Explanation:
    about = Reference("SharingPolicy", policy.metadata.name)
    findings = [*_findings(policy, about), *_resets(policy, scene, about)]
    nodes = policy.status.nodes
    where = f" is in force on {nodes.ready} of {wording.nodes(nodes.selected)}" if nodes else " has no status yet"
    headline = f"SharingPolicy {about.name}{where}."
    tables = [Table("offers", _OFFERS, _classes(policy, scene)), *_counts(policy)]
    return Explanation(object=about, state=worst(findings), headline=headline, findings=findings, tables=tables)


def _findings(policy: SharingPolicy, about: Reference) -> list[Finding]:
    conditions = {one.type: one for one in policy.status.conditions}
    generation, seen = policy.metadata.generation, policy.status.observed_generation
    found: list[Finding] = []
    if seen != generation:
        found.append(policies.NOT_SEEN.found(about, seen=seen if seen is not None else "none", generation=generation))
    accepted = conditions.get(ConditionType.ACCEPTED)
    if accepted and accepted.reason != AcceptedReason.ACCEPTED:
        return [*found, policies.NOT_ACCEPTED.found(about, reason=accepted.reason, message=accepted.message)]
    found += _not_ready(conditions.get(ConditionType.READY), about)
    found += [
        policies.NOT_IN_FORCE.found(about, node=one.node, reason=one.reason.value, message=one.message)
        for one in policy.status.lagging
    ]
    for type_, entry in ((ConditionType.DEGRADED, policies.DEGRADED), (ConditionType.CONFLICTED, policies.LOSES_GPUS)):
        condition = conditions.get(type_)
        if condition and condition.status is ConditionStatus.TRUE:
            found.append(entry.found(about, reason=condition.reason, message=condition.message))
    return found


def _not_ready(ready: Condition | None, about: Reference) -> list[Finding]:
    if ready is None or ready.status is ConditionStatus.TRUE or ready.reason == ReadyReason.WAITING_FOR_NODES:
        return []
    if field := {reason.value: field for reason, field in _SUSPENDED.items()}.get(ready.reason):
        return [policies.SUSPENDED.found(about, reason=ready.reason, field=field)]
    entry = policies.MATCHES_NOTHING if ready.reason in _EMPTY else policies.NOT_READY
    return [entry.found(about, reason=ready.reason, message=ready.message)]


def _resets(policy: SharingPolicy, scene: Scene, about: Reference) -> list[Finding]:
    """GPUs of the policy which do not offer MIG as it says. A policy without MIG has none."""
    if policy.spec.offers.mig is None:
        return []
    models: list[str] = []
    nodes: list[str] = []
    for node, sharing in sorted(scene.node_sharings.items()):
        reported = {one.uuid: one for one in sharing.status.gpus}
        for gpu in sharing.spec.gpus:
            status = reported.get(gpu.uuid)
            is_ours = gpu.policy is not None and gpu.policy.name == about.name
            if status and is_ours and gpus.needs_reset_for_mig(status, gpu, sharing):
                models.append(status.model)
                nodes.append(node)
    if not models:
        return []
    where = listed(list(dict.fromkeys(nodes)))
    text = f"{counted(len(models), 'GPU')} ({listed(list(dict.fromkeys(models)))}) of {where}"
    return [MIG_NEEDS_RESET.found(about, gpus=text)]


def _classes(policy: SharingPolicy, scene: Scene) -> Sequence[tuple[str, ...]]:
    rows = []
    for mode in Sharing:
        if for_mode(policy.spec.offers, mode) is None:
            continue
        name = policy_class(policy.metadata.name, mode)
        if not policy.spec.classes.create:
            rows.append((mode.value, "-", "classes.create is false"))
        elif "classes" in scene.world.unread:
            rows.append((mode.value, name, "unknown"))
        else:
            rows.append((mode.value, name, "exists" if name in scene.classes else "does not exist yet"))
    return rows


def _counts(policy: SharingPolicy) -> list[Table]:
    status = policy.status
    rows: list[tuple[str, ...]] = []
    if status.nodes:
        rows += [("nodes selected", str(status.nodes.selected)), ("nodes in force", str(status.nodes.ready))]
        rows += [("nodes failing", str(status.nodes.failing))] if status.nodes.failing else []
    if status.gpus:
        rows += [("GPUs won", str(status.gpus.won)), ("GPUs lost", str(status.gpus.lost))]
    if status.clients:
        rows.append(("clients", f"{status.clients.current} of at most {status.clients.max}"))
    return [Table("counts", _COUNTS, rows)] if rows else []
