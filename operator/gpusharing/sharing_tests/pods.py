"""The pods of a test, with the claims that the controller manager would make of their templates."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count as counting
from itertools import islice
from typing import Any, Final

from gpusharing.api.meta import Key
from gpusharing.sharing_tests.form import MOST_PODS, Pods
from gpusharing.sharing_tests.reading import Given
from gpusharing.snapshots.world import Json
from gpusharing.validating.kinds import pod_spec

_POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
_COUNTS: Final = {"Deployment": "replicas", "ReplicaSet": "replicas", "StatefulSet": "replicas", "Job": "parallelism"}
_REQUEST: Final = "gpu"
_NAME: Final = "pod"


@dataclass(frozen=True, slots=True)
class NewPod:
    pod: dict[str, Any]
    claims: Sequence[dict[str, Any]] = ()
    """Those that are made for it."""

    @property
    def key(self) -> Key:
        return self.pod["metadata"]["namespace"], self.pod["metadata"]["name"]

    @property
    def name(self) -> str:
        return "/".join(self.key)


def of_class(entry: Pods, used: Collection[Key]) -> list[NewPod]:
    """`used`: names that are taken."""
    exactly: dict[str, Any] = {"deviceClassName": entry.device_class}
    if entry.capacity:
        exactly["capacity"] = {"requests": dict(entry.capacity)}
    devices = {"requests": [{"name": _REQUEST, "exactly": exactly}]}
    template = {"metadata": {"name": _REQUEST, "namespace": entry.namespace}, "spec": {"spec": {"devices": devices}}}
    spec = {"containers": [], "resourceClaims": [{"name": _REQUEST, "resourceClaimTemplateName": _REQUEST}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": entry.name or _NAME}, "spec": spec}
    return list(_made(pod, entry, {(entry.namespace, _REQUEST): template}, set(used)))


def of_manifest(
    objects: Sequence[Given], entry: Pods, templates: Iterable[Json], used: Collection[Key]
) -> list[NewPod]:
    """`templates`: those that the cluster has."""
    given = [one.value for one in objects]
    known = {_key(one, entry): one for one in (*templates, *given) if one["kind"] == "ResourceClaimTemplate"}
    names = set(used)
    return [
        pod
        for one in given
        if pod_spec(one) is not None and (entry.name is None or entry.name == one["metadata"]["name"])
        for pod in _made(one, entry, known, names)
    ]


def claims_of(objects: Iterable[Given], entry: Pods) -> Iterator[dict[str, Any]]:
    """Those that stand in the manifest themselves."""
    for one in objects:
        if one.value["kind"] == "ResourceClaim":
            yield _named(one.value, one.value["metadata"]["name"], _key(one.value, entry)[0], "claim")


def _made(value: Json, entry: Pods, templates: Mapping[Key, Json], used: set[Key]) -> Iterator[NewPod]:
    around: Any = value
    for part in (pod_spec(value) or ())[:-1]:
        around = around[part]
    field = _COUNTS.get(value["kind"])
    each = value["spec"].get(field) if field else None
    # One more than there may be: then it is told.
    count = min((1 if each is None else each) * entry.count, MOST_PODS + 1)
    namespace, name = _key(value, entry)
    is_one = count == 1 and value["kind"] == "Pod"
    names = (one for one in _names(name, is_one=is_one) if (namespace, one) not in used)
    for own in islice(names, count):
        used.add((namespace, own))
        metadata = around.get("metadata") or {}
        pod = _named({"metadata": metadata, "spec": around["spec"]}, own, namespace, "pod")
        yield _with_claims({"apiVersion": "v1", "kind": "Pod", **pod}, templates)


def _names(name: str, *, is_one: bool) -> Iterator[str]:
    if is_one:
        yield name
    for number in counting(1):
        yield f"{name}-{number}"


def _with_claims(pod: dict[str, Any], templates: Mapping[Key, Json]) -> NewPod:
    metadata = pod["metadata"]
    namespace = metadata["namespace"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    claims: list[dict[str, Any]] = []
    made: list[dict[str, str]] = []
    for one in pod["spec"].get("resourceClaims") or ():
        template = templates.get((namespace, one.get("resourceClaimTemplateName") or ""))
        if template is None:
            continue
        claim = _named({"spec": template["spec"]["spec"]}, f"{metadata['name']}-{one['name']}", namespace, "claim")
        claim["metadata"] |= {"annotations": {_POD_CLAIM_NAME: one["name"]}, "ownerReferences": [owner]}
        claims.append(claim)
        made.append({"name": one["name"], "resourceClaimName": claim["metadata"]["name"]})
    status = {"phase": "Pending", "resourceClaimStatuses": made}
    return NewPod({**pod, "status": status}, claims)


def _named(value: Mapping[str, Any], name: str, namespace: str, kind: str) -> dict[str, Any]:
    metadata = {**value.get("metadata", {}), "name": name, "namespace": namespace, "uid": f"{kind}-{namespace}-{name}"}
    return {**value, "metadata": metadata}


def _key(value: Json, entry: Pods) -> Key:
    return value["metadata"].get("namespace") or entry.namespace, value["metadata"]["name"]
