"""A short pod for each mode that is offered to everybody: what it is, and what became of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.diagnosing.check import Check, Section, not_checked, of_cluster, of_object
from gpusharing.diagnosing.facts import Listed
from gpusharing.findings import installations, waiting
from gpusharing.findings.finding import Finding
from gpusharing.snapshots.world import Json

CLASSES: Final = {
    Sharing.EXCLUSIVE: "gpu.nvidia.com",
    Sharing.TIME_SLICING: "timeslicing.gpu.nvidia.com",
    Sharing.MPS: "mps.gpu.nvidia.com",
    Sharing.MIG: "mig.nvidia.com",
}
LABEL: Final = "gpusharing.dev/probe"
PROGRAM: Final = ("gpusharing", "--version")
"""What the pod runs in our image."""
ANY_PROGRAM: Final = ("true",)
"""In another one."""

_FIELDS: Final = {
    "exclusive": Sharing.EXCLUSIVE,
    "timeSlicing": Sharing.TIME_SLICING,
    "mps": Sharing.MPS,
    "mig": Sharing.MIG,
}
_NO_ROOM: Final = frozenset(
    entry.code
    for entry in (
        waiting.IN_USE,
        waiting.SHARES_TAKEN,
        waiting.OTHER_MODE,
        waiting.FRAGMENTED,
        waiting.CLOSING,
        waiting.EXCLUDED,
    )
)
# Longer than anybody waits: the node ends what a killed command has left behind.
_LONGEST: Final = 900
_LONGEST_MESSAGE: Final = 300
_USER: Final = 65532


class Probed(NamedTuple):
    """What became of one of them."""

    mode: Sharing
    namespace: str
    image: str
    program: str
    seconds: float = 0
    refused: str = ""
    """The API server's words."""
    pod: Json | None = None
    """As it was seen last."""
    headline: str = ""
    explained: Sequence[Finding] = ()
    """By `explain`, if it hangs."""
    left: str = ""
    """Why it is still there."""


def offered_modes(sharings: Sequence[Json]) -> list[Sharing]:
    """That everybody may use, on any GPU: now, or when it is idle."""
    found: set[Sharing] = set()
    for sharing in sharings:
        for gpu in (sharing.get("spec") or {}).get("gpus") or ():
            if not gpu.get("restricted"):
                found |= {_FIELDS[field] for field in (gpu.get("offers") or {}) if field in _FIELDS}
        for gpu in (sharing.get("status") or {}).get("gpus") or ():
            if not names.policy_of_pool(gpu.get("pool") or ""):
                found |= {
                    mode
                    for one in gpu.get("published") or ()
                    if not one.get("closingSince") and (mode := names.sharing_of_device(one["device"]))
                }
    return [mode for mode in Sharing if mode in found]


def pod_of(name: str, *, image: str, program: Sequence[str]) -> dict[str, Any]:
    """Allowed also where namespaces admit only restricted pods."""
    container = {
        "name": "probe",
        "image": image,
        "command": list(program),
        "resources": {"claims": [{"name": "gpu"}], "limits": {"memory": "128Mi"}, "requests": {"cpu": "10m"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {LABEL: "true"}},
        "spec": {
            "restartPolicy": "Never",
            "activeDeadlineSeconds": _LONGEST,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            # As GKE and others taint nodes with GPUs.
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            "containers": [container],
        },
    }


def claim_of(pod: Json, mode: Sharing) -> dict[str, Any]:
    """It goes when its pod goes, also if the command was killed."""
    metadata = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": metadata["name"], "labels": {LABEL: "true"}, "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASSES[mode]}}]}},
    }


def phase_of(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def has_ended(pod: Json) -> bool:
    return phase_of(pod) in {"Succeeded", "Failed"}


def check_offers(sharings: Listed) -> Iterator[Check]:
    """Nothing, if there is something to try."""
    if sharings.unread:
        yield not_checked(Section.PROBES, "probe", "Pods with GPUs", sharings.unread)
    elif not offered_modes(sharings.objects):
        yield Check(Section.PROBES, "probe", "", [of_cluster(installations.NOTHING_TO_PROBE)])


def check_probe(probed: Probed) -> Check:
    node = ((probed.pod or {}).get("spec") or {}).get("nodeName", "")
    found = list(_findings(probed, node))
    if probed.left:
        name = probed.pod["metadata"]["name"] if probed.pod else ""
        values = {"pod": name, "namespace": probed.namespace, "why": probed.left}
        found.append(of_object(installations.PROBE_LEFT, "Pod", name, **values))
    well = f"A pod got a GPU of node {node} in mode {probed.mode} and ended well after {probed.seconds:.0f} s."
    return Check(Section.PROBES, f"probe-{probed.mode.lower()}", well, found)


def _findings(probed: Probed, node: str) -> Iterator[Finding]:
    mode, time = probed.mode.value, f"{probed.seconds:.0f} s"
    if probed.refused:
        values = {"what": f"The pod or claim for mode {mode}", "message": probed.refused}
        yield of_cluster(installations.PROBE_REFUSED, namespace=probed.namespace, **values)
    elif probed.pod is None:
        return
    elif phase_of(probed.pod) == "Failed":
        values = {"mode": mode, "node": node, "image": probed.image, "program": probed.program}
        yield of_cluster(installations.PROBE_FAILED, why=_end(probed.pod), **values)
    elif not has_ended(probed.pod):
        if not node and probed.explained and probed.explained[0].code in _NO_ROOM:
            yield of_cluster(installations.PROBE_HAD_NO_ROOM, mode=mode, time=time)
        else:
            where = _container(probed.pod) or probed.headline
            yield of_cluster(installations.PROBE_HANGS, mode=mode, time=time, where=where)
        yield from probed.explained


def _statuses(pod: Json) -> Sequence[Mapping[str, Any]]:
    return (pod.get("status") or {}).get("containerStatuses") or ()


def _end(pod: Json) -> str:
    for container in _statuses(pod):
        ended = (container.get("state") or {}).get("terminated")
        if ended:
            message = str(ended.get("message") or "").strip()[:_LONGEST_MESSAGE]
            return f"exit code {ended.get('exitCode')} ({ended.get('reason')}){f': {message}' if message else ''}"
    status = pod.get("status") or {}
    return f"{status.get('reason', 'Failed')}: {status.get('message', '')}"


def _container(pod: Json) -> str:
    """Why its container does not start, if the node has come so far."""
    for container in _statuses(pod):
        waits = (container.get("state") or {}).get("waiting") or {}
        if waits.get("message"):
            return f"its container waits: {waits.get('reason')} ({waits['message']})"
    return ""
