"""`explain pod`."""

from collections.abc import Mapping, Sequence
from typing import Final

from gpusharing.core.allocate.requests import Claim, Wanted, group_of
from gpusharing.explaining import binding, claims_of_pod, running, scheduler, waiting_pod, where, wording
from gpusharing.explaining.explanation import Explanation, State, worst
from gpusharing.explaining.scene import Scene
from gpusharing.explaining.scheduler import Said
from gpusharing.explaining.waiting_pod import Expected, Outcome
from gpusharing.findings import waiting
from gpusharing.findings.finding import Finding, Reference
from gpusharing.snapshots.world import POD_GROUPS, Json

_ENDED: Final = frozenset({"Succeeded", "Failed"})


def explain(pod: Json, scene: Scene) -> Explanation:
    metadata = pod["metadata"]
    about = Reference("Pod", metadata["name"], metadata.get("namespace", ""))
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return Explanation(object=about, state=State.RUNS, headline=f"{_title(about)} has ended.")
    if pod["spec"].get("nodeName"):
        return running.explain_pod(pod, about, scene)
    return _waiting(pod, about, scene)


def _waiting(pod: Json, about: Reference, scene: Scene) -> Explanation:
    said = scheduler.said(pod, scene.world.events)
    if before := _before_scheduling(pod, about, scene):
        return _explanation(about, [], Outcome(findings=before), scene, said)
    found = claims_of_pod.read(pod, about, scene)
    if found.findings:
        return _explanation(about, [], Outcome(findings=found.findings), scene, said)
    extended, problem = waiting_pod.extended(pod, about, scene)
    if problem is not None:
        return _explanation(about, [], Outcome(findings=[problem]), scene, said)
    claims = [*found.claims, *([extended] if extended else [])]
    if not claims:
        headline = f"{_title(about)} is waiting, and asks for no device."
        return Explanation(object=about, state=State.WAITS, headline=headline, scheduler=_quoted(said, scene))
    if before := list(binding.not_reported(pod, about, scene)):
        return _explanation(about, claims, Outcome(findings=before, expected=Expected.ANYTHING), scene, said)
    excluded = where.exclusions(pod, scene.nodes)
    outcome = waiting_pod.why(scene, about, claims, excluded=excluded, said=said)
    return _explanation(about, claims, outcome, scene, said)


def _before_scheduling(pod: Json, about: Reference, scene: Scene) -> list[Finding]:
    gates = [one["name"] for one in pod["spec"].get("schedulingGates") or ()]
    if gates:
        return [waiting.GATED.found(about, gates=wording.some(gates))]
    name = group_of(pod)
    return [] if name is None else _group(pod, name, about, scene)


def _group(pod: Json, name: str, about: Reference, scene: Scene) -> list[Finding]:
    group = scene.world.get(POD_GROUPS, name, about.namespace)
    if group is None:
        problem = "the group does not exist"
        if POD_GROUPS.field in scene.world.unread:
            problem = "the group cannot be read"
        return [waiting.POD_GROUP.found(about, group=name, problem=problem)]
    least = ((group["spec"].get("schedulingPolicy") or {}).get("gang") or {}).get("minCount") or 1
    namespace = pod["metadata"].get("namespace")
    there = [one for one in scene.world.pods if group_of(one) == name and one["metadata"].get("namespace") == namespace]
    if len(there) >= least:
        return []
    return [waiting.POD_GROUP.found(about, group=name, problem=f"it needs {least} pods, and {len(there)} exist")]


def _explanation(
    about: Reference, claims: Sequence[Claim], outcome: Outcome, scene: Scene, said: Said | None
) -> Explanation:
    findings = list(outcome.findings)
    if said and not outcome.agrees_with(said):
        findings.append(waiting.DIFFERS.found(about, message=said.short(scene.now)))
        agreement = ""
    else:
        agreement = _quoted(said, scene)
    state = State.WAITS if worst(findings) is State.RUNS else worst(findings)
    return Explanation(
        object=about,
        state=state,
        headline=f"{_title(about)} is waiting{_for(claims)}.",
        findings=findings,
        tables=outcome.tables,
        scheduler=agreement,
    )


def _quoted(said: Said | None, scene: Scene) -> str:
    if said is None:
        return "The scheduler has not said anything about the pod yet."
    return f"The scheduler says: {said.short(scene.now)}"


def _title(about: Reference) -> str:
    return f"Pod {about.namespace}/{about.name}"


def _for(claims: Sequence[Claim]) -> str:
    """What it asks for."""
    parts = [
        f"{claim.name} ({', or '.join(map(asked, request.alternatives))})"
        for claim in claims
        if not claim.is_allocated
        for request in claim.requests
    ]
    return f" for claim {wording.some(parts)}" if parts else ""


def asked(wanted: Wanted) -> str:
    amounts: Mapping[str, int] = wanted.capacity
    parts = [f"class {wanted.device_class}"]
    if wanted.everything:
        parts.append("all devices")
    elif wanted.count > 1:
        parts.append(wording.devices(wanted.count))
    parts += [f"{name} {wording.amount(amount)}" for name, amount in amounts.items()]
    return ", ".join(parts)
