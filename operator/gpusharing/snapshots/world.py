"""The objects of a cluster that commands work on, as the API server has them.

Objects stay JSON: who needs types decodes those that it uses, with the kinds of `gpusharing.kube.kinds`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

Json = Mapping[str, Any]


class Resource(NamedTuple):
    """Where the objects of one kind are in the API."""

    api_version: str
    kind: str
    plural: str
    field: str
    """Of a World."""
    is_namespaced: bool = False

    def path(self, *, namespace: str = "", name: str = "") -> str:
        root = "/apis" if "/" in self.api_version else "/api"
        parts = [root, self.api_version, *(("namespaces", namespace) if namespace else ()), self.plural]
        return "/".join([*parts, *((name,) if name else ())])


_DRA: Final = "resource.k8s.io/v1"
_OURS: Final = "gpusharing.dev/v1alpha1"
_ADMISSION: Final = "admissionregistration.k8s.io/v1"

NODES: Final = Resource("v1", "Node", "nodes", "nodes")
NAMESPACES: Final = Resource("v1", "Namespace", "namespaces", "namespaces")
PODS: Final = Resource("v1", "Pod", "pods", "pods", is_namespaced=True)
EVENTS: Final = Resource("v1", "Event", "events", "events", is_namespaced=True)
QUOTAS: Final = Resource("v1", "ResourceQuota", "resourcequotas", "quotas", is_namespaced=True)
SLICES: Final = Resource(_DRA, "ResourceSlice", "resourceslices", "slices")
CLASSES: Final = Resource(_DRA, "DeviceClass", "deviceclasses", "classes")
CLAIMS: Final = Resource(_DRA, "ResourceClaim", "resourceclaims", "claims", is_namespaced=True)
TEMPLATES: Final = Resource(_DRA, "ResourceClaimTemplate", "resourceclaimtemplates", "templates", is_namespaced=True)
TAINT_RULES: Final = Resource(_DRA, "DeviceTaintRule", "devicetaintrules", "taint_rules")
POLICIES: Final = Resource(_OURS, "SharingPolicy", "sharingpolicies", "policies")
NODE_SHARINGS: Final = Resource(_OURS, "NodeSharing", "nodesharings", "node_sharings")
GUARDS: Final = Resource(_ADMISSION, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", "guards")
BINDINGS: Final = Resource(
    _ADMISSION, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "bindings"
)
POD_GROUPS: Final = Resource("scheduling.k8s.io/v1beta1", "PodGroup", "podgroups", "pod_groups", is_namespaced=True)
DAEMON_SETS: Final = Resource("apps/v1", "DaemonSet", "daemonsets", "daemon_sets", is_namespaced=True)

RESOURCES: Final = (
    NODES,
    NAMESPACES,
    PODS,
    EVENTS,
    QUOTAS,
    SLICES,
    CLASSES,
    CLAIMS,
    TEMPLATES,
    TAINT_RULES,
    POLICIES,
    NODE_SHARINGS,
    GUARDS,
    BINDINGS,
    POD_GROUPS,
    DAEMON_SETS,
)


NOT_SERVED: Final = "the API server does not serve"
"""So begins the reason why objects could not be read whose CRD is not installed."""


@dataclass(frozen=True, kw_only=True)
class World:
    minor: int
    """Of the Kubernetes whose scheduler decides: 37 for 1.37."""
    taken_at: str
    """When it was read, as Kubernetes writes moments."""
    nodes: Sequence[Json] = ()
    namespaces: Sequence[Json] = ()
    pods: Sequence[Json] = ()
    events: Sequence[Json] = ()
    quotas: Sequence[Json] = ()
    slices: Sequence[Json] = ()
    classes: Sequence[Json] = ()
    claims: Sequence[Json] = ()
    templates: Sequence[Json] = ()
    taint_rules: Sequence[Json] = ()
    policies: Sequence[Json] = ()
    node_sharings: Sequence[Json] = ()
    guards: Sequence[Json] = ()
    bindings: Sequence[Json] = ()
    pod_groups: Sequence[Json] = ()
    daemon_sets: Sequence[Json] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    """Fields that were asked for and could not be read, with the API server's reason: then they are empty."""
    only_namespace: Mapping[str, str] = field(default_factory=dict)
    """Fields of which only one namespace could be read."""
    served: Sequence[str] = ()
    """Versions of resource.k8s.io that the API server serves, if somebody asked."""

    def of(self, resource: Resource) -> Sequence[Json]:
        objects: Sequence[Json] = getattr(self, resource.field)
        return objects

    def get(self, resource: Resource, name: str, namespace: str = "") -> Json | None:
        """By search: for many questions make an index."""
        for one in self.of(resource):
            metadata = one["metadata"]
            if metadata["name"] == name and (not namespace or metadata.get("namespace") == namespace):
                return one
        return None
