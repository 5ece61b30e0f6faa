"""Which agents do not run where, and so publish nothing."""

from collections.abc import Sequence
from typing import Any

from gpusharing.api import names
from gpusharing.core.allocate.requests import Claim
from gpusharing.explaining import wording
from gpusharing.explaining.scene import Scene
from gpusharing.findings import waiting
from gpusharing.findings.finding import Finding, Reference
from gpusharing.snapshots.world import Json


def why_no_slices(scene: Scene, about: Reference, claims: Sequence[Claim]) -> list[Finding]:
    namespace = next((one["metadata"]["namespace"] for one in _daemon_sets(scene)), names.NAMESPACE)
    remedy = f"Start a DRA driver on the nodes with GPUs: `kubectl -n {namespace} get daemonset,pods -o wide`."
    return [*missing(scene, about), _no_device(about, claims, remedy)]


def why_no_devices(scene: Scene, about: Reference, claims: Sequence[Claim]) -> list[Finding]:
    """Slices are there, and they are empty: no policy offers anything that these GPUs can do."""
    policy = next(iter(sorted(scene.policies)), "NAME")
    remedy = f"See what the policies offer, and why these GPUs cannot do it: `gpusharing explain policy {policy}`."
    return [*missing(scene, about), _no_device(about, claims, remedy)]


def _no_device(about: Reference, claims: Sequence[Claim], remedy: str) -> Finding:
    wanted = claims[0].requests[0].alternatives[0]
    return waiting.NO_SLICES.found(about, request=wanted.name, class_=wanted.device_class, remedy=remedy)


def missing(scene: Scene, about: Reference) -> list[Finding]:
    """Nodes whose agent does not run, by what Kubernetes says of its pod."""
    found: dict[tuple[str, str], list[str]] = {}
    for pod in _agents(scene):
        if problem := _problem(pod):
            found.setdefault((problem, pod["metadata"]["namespace"]), []).append(_node(pod) or "no node")
    findings = [
        waiting.AGENT_NOT_RUNNING.found(
            about,
            nodes=wording.some(sorted(nodes)),
            why=problem,
            remedy=f"See `kubectl -n {namespace} describe pods -l {names.PROGRAM_LABEL}={names.AGENT}`, and its log.",
        )
        for (problem, namespace), nodes in sorted(found.items())
    ]
    for one in _daemon_sets(scene):
        if not (one.get("status") or {}).get("desiredNumberScheduled"):
            selector = one["spec"]["template"]["spec"].get("nodeSelector") or {}
            labels = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
            findings.append(
                waiting.AGENT_NOT_RUNNING.found(
                    about,
                    nodes="any node",
                    why=f"no node has the labels of its DaemonSet ({labels})" if labels else "no node takes its pods",
                    remedy=f"Label the nodes with GPUs: `kubectl label node NAME {labels.replace(',', ' ')}`."
                    if labels
                    else "See the taints of the nodes with GPUs.",
                )
            )
    return findings


def _daemon_sets(scene: Scene) -> list[Json]:
    return [one for one in scene.world.daemon_sets if _is_of_agent(one)]


def _agents(scene: Scene) -> list[Json]:
    return [one for one in scene.world.pods if _is_of_agent(one)]


def _is_of_agent(one: Json) -> bool:
    return names.program_of(one["metadata"].get("labels") or {}) == names.AGENT


def _node(pod: Json) -> str:
    """Also of one that is not bound yet: pods of a DaemonSet name their node."""
    if name := pod["spec"].get("nodeName"):
        return str(name)
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    fields = [field for term in affinity.get("nodeSelectorTerms") or () for field in term.get("matchFields") or ()]
    return str(fields[0]["values"][0]) if fields else ""


def _problem(pod: Json) -> str:
    """Empty: it runs."""
    status: dict[str, Any] = dict(pod.get("status") or {})
    for container in status.get("containerStatuses") or ():
        waiting_ = (container.get("state") or {}).get("waiting")
        if waiting_:
            message = waiting_.get("message") or ""
            return f"{waiting_.get('reason')}{f' ({message})' if message else ''}"
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled")
    if scheduled and scheduled["status"] != "True":
        return f"its pod waits ({scheduled.get('message') or scheduled.get('reason')})"
    ready = conditions.get("Ready")
    return "" if ready and ready["status"] == "True" else f"its pod is not ready ({status.get('phase', 'Unknown')})"
