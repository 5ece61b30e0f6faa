"""Pods that wait for devices, with what `explain pod` says first of each. Pods of one owner wait for the same."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gpusharing.core.allocate.extended_resources import IMPLICIT
from gpusharing.explaining import pods as explaining
from gpusharing.explaining.names_of_claims import names_of_claims
from gpusharing.explaining.scene import Scene
from gpusharing.findings.finding import Finding, Reference
from gpusharing.occupancy.fleet import Waiting
from gpusharing.snapshots.world import Json

_NODES_LOOKED_AT: Final = 2000
"""For all explanations together: each looks at all nodes."""
_MOST: Final = 16


def asks_for_devices(pod: Json, resources: Collection[str]) -> bool:
    """`resources`: extended resources of device classes."""
    if pod["spec"].get("resourceClaims"):
        return True
    return any(name in resources or name.startswith(IMPLICIT) for name in extended_resources(pod))


def extended_resources(pod: Json) -> Collection[str]:
    """Those that are no CPU, memory or the like."""
    containers = (*(pod["spec"].get("initContainers") or ()), *(pod["spec"].get("containers") or ()))
    given = [(one.get("resources") or {}).get("limits") or {} for one in containers]
    return {name for limits in given for name in limits if "/" in name}


def waiting_pods(pods: Sequence[Json], classes: Sequence[Json]) -> list[Json]:
    """Those that ask for devices and have no node, the longest first."""
    resources = {name for one in classes if (name := one["spec"].get("extendedResourceName"))}
    found = [
        pod
        for pod in pods
        if not pod["spec"].get("nodeName")
        and (pod.get("status") or {}).get("phase", "Pending") == "Pending"
        and asks_for_devices(pod, resources)
    ]
    return sorted(found, key=lambda pod: (_since(pod), _key(pod)))


def to_explain(pods: Sequence[Json], nodes: int) -> list[Json]:
    """The first of each owner, as many as can be explained in the time of a command."""
    most = min(max(_NODES_LOOKED_AT // max(nodes, 1), 1), _MOST)
    first: dict[str, Json] = {}
    for pod in pods:
        first.setdefault(_owner(pod), pod)
    return list(first.values())[:most]


def waiting(pods: Sequence[Json], explained: Sequence[Json], scene: Scene) -> tuple[Waiting, ...]:
    """`explained`: those that `to_explain` has chosen, whose claims are in the scene."""
    findings = {_owner(pod): _finding(pod, scene) for pod in explained}
    return tuple(_waiting(pod, findings.get(_owner(pod))) for pod in pods)


def _waiting(pod: Json, finding: Finding | None) -> Waiting:
    namespace, name = _key(pod)
    about = Reference("Pod", name, namespace)
    return Waiting(
        namespace=namespace,
        pod=name,
        since=_since(pod),
        claims=tuple(names_of_claims(pod)),
        finding=replace(finding, object=about) if finding else None,
    )


def _finding(pod: Json, scene: Scene) -> Finding | None:
    return next(iter(explaining.explain(pod, scene).findings), None)


def _owner(pod: Json) -> str:
    """By its uid; a pod without an owner is its own."""
    metadata: Mapping[str, Any] = pod["metadata"]
    owners = [one["uid"] for one in metadata.get("ownerReferences") or () if one.get("controller")]
    return str(owners[0] if owners else metadata.get("uid") or _key(pod))


def _since(pod: Json) -> str:
    return str(pod["metadata"].get("creationTimestamp") or "")


def _key(pod: Json) -> tuple[str, str]:
    return pod["metadata"].get("namespace", ""), pod["metadata"]["name"]
