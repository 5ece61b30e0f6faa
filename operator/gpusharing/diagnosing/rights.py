"""What the programs have to be allowed to do: the roles of manifests/base, which a test compares."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from gpusharing.core.cluster.guards.allocation import ALLOCATION
from gpusharing.core.cluster.guards.claims import CLAIMS
from gpusharing.core.cluster.guards.closing import CLOSING
from gpusharing.core.cluster.guards.namespaces import NAMESPACES
from gpusharing.core.cluster.guards.pods import PODS


class Right(NamedTuple):
    verb: str
    group: str
    resource: str
    """With its subresource, if any."""
    name: str = ""
    namespace: str = ""
    """Empty: in all."""

    def __str__(self) -> str:
        name = f" {self.name}" if self.name else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}{name}{where}"


OWN_NAMESPACE: Final = "*own*"
"""Stands for the namespace of the installation."""
LEASE: Final = "*lease*"
"""Stands for the name of the operator's Lease."""

_READ: Final = ("get", "list", "watch")
_GUARDS: Final = (ALLOCATION, CLAIMS, CLOSING, PODS)


def of_operator() -> Iterator[Right]:
    yield from _all(_READ, "gpusharing.dev", "sharingpolicies")
    yield Right("patch", "gpusharing.dev", "sharingpolicies/status")
    yield from _all((*_READ, "update"), "gpusharing.dev", "nodesharings")
    yield from _all(_READ, "resource.k8s.io", "resourceclaims")
    for resource in ("deviceclasses", "resourceclaimtemplates"):
        yield from _all((*_READ, "create", "patch", "delete"), "resource.k8s.io", resource)
    yield from _all((*_READ, "create", "delete"), "resource.k8s.io", "devicetaintrules")
    for resource in ("nodes", "namespaces"):
        yield from _all(_READ, "", resource)
    yield from _all((*_READ, "create", "patch", "delete"), "", "resourcequotas")
    for guard in (*_GUARDS, NAMESPACES):
        for verb in (*_READ, "patch"):
            yield Right(verb, "admissionregistration.k8s.io", "validatingadmissionpolicies", guard)
    for guard in _GUARDS:
        for verb in _READ:
            yield Right(verb, "admissionregistration.k8s.io", "validatingadmissionpolicybindings", guard)
    yield Right("get", "discovery.k8s.io", "endpointslices", "kubernetes")
    yield Right("create", "events.k8s.io", "events")
    yield Right("list", "coordination.k8s.io", "leases", namespace="kube-system")
    yield Right("create", "coordination.k8s.io", "leases", namespace=OWN_NAMESPACE)
    for verb in ("get", "patch"):
        yield Right(verb, "coordination.k8s.io", "leases", LEASE, OWN_NAMESPACE)


def of_agent() -> Iterator[Right]:
    yield from _all((*_READ, "create"), "gpusharing.dev", "nodesharings")
    yield Right("patch", "gpusharing.dev", "nodesharings/status")
    yield from _all((*_READ, "create", "update", "delete"), "resource.k8s.io", "resourceslices")
    yield Right("get", "resource.k8s.io", "resourceclaims")
    yield Right("patch", "resource.k8s.io", "resourceclaims/status")
    yield Right("associated-node:patch", "resource.k8s.io", "resourceclaims/driver", "gpu.nvidia.com")
    yield Right("get", "", "nodes")
    yield Right("create", "events.k8s.io", "events", namespace="default")


def _all(verbs: tuple[str, ...], group: str, resource: str) -> Iterator[Right]:
    for verb in verbs:
        yield Right(verb, group, resource)
