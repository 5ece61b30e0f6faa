"""The kinds that we read and write: where they live in the API and how their bytes become objects."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

import pydantic

from gpusharing.api import coordination, core, dra, names, strict_json
from gpusharing.api.meta import Identity, PartialObjectMetadata
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.policy import SharingPolicy, UnreadablePolicy

T = TypeVar("T")


class _ListBody(pydantic.BaseModel, Generic[T]):
    metadata: dict[str, Any] = pydantic.Field(default_factory=dict)
    items: tuple[T, ...] | None = ()  # Go writes an empty list as null


@dataclass(frozen=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    resource_version: str
    continue_token: str


_METADATA_LIST: Final = _ListBody[PartialObjectMetadata]


def decode_identities(data: bytes) -> Page[Identity]:
    # By pydantic's own reader, in a sixth of the time: in metadata nobody may write what it would give up on.
    body = _METADATA_LIST.model_validate_json(data)
    return _page(tuple(item.metadata for item in body.items or ()), body.metadata)


def _page(items: tuple[T, ...], metadata: dict[str, Any]) -> Page[T]:
    return Page(items, metadata.get("resourceVersion", ""), metadata.get("continue", ""))


@dataclass(frozen=True)
class Kind(Generic[T]):
    api_version: str
    kind: str
    plural: str
    model: type[T]
    namespaced: bool = False
    unreadable: Callable[[Any], T] | None = None
    """Makes of its metadata what stands for an object that cannot be read, where it matters that it is there."""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    def path(self, name: str = "", namespace: str = "", subresource: str = "") -> str:
        root = "/apis" if self.group else "/api"
        parts = [root, self.api_version, *(("namespaces", namespace) if namespace else ()), self.plural]
        return "/".join([*parts, *((name,) if name else ()), *((subresource,) if subresource else ())])

    def decode(self, data: bytes) -> T:
        return self.from_json(strict_json.loads(data))

    def from_json(self, value: Any) -> T:
        return self._adapter.validate_python(value)

    def decode_page(self, data: bytes) -> Page[T]:
        # Not by pydantic's own reader: it gives up on what other people may write into opaque parameters, and a page
        # that one claim can make unreadable would hide all claims.
        body: _ListBody[T] = self._list_model.model_validate(strict_json.loads(data))
        return _page(body.items or (), body.metadata)

    @cached_property
    def _adapter(self) -> pydantic.TypeAdapter[T]:
        return pydantic.TypeAdapter(self.model)

    @cached_property
    def _list_model(self) -> type[_ListBody[T]]:
        generic: Any = _ListBody
        parametrized: type[_ListBody[T]] = generic[self.model]
        return parametrized


SHARING_POLICIES: Final = Kind(
    names.API_VERSION,
    "SharingPolicy",
    "sharingpolicies",
    SharingPolicy,
    unreadable=UnreadablePolicy.of,
)
NODE_SHARINGS: Final = Kind(names.API_VERSION, "NodeSharing", "nodesharings", NodeSharing)
RESOURCE_CLAIMS: Final = Kind(
    "resource.k8s.io/v1", "ResourceClaim", "resourceclaims", dra.ResourceClaim, namespaced=True
)
RESOURCE_SLICES: Final = Kind("resource.k8s.io/v1", "ResourceSlice", "resourceslices", dra.ResourceSlice)
DEVICE_CLASSES: Final = Kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses", dra.DeviceClass)
NODES: Final = Kind("v1", "Node", "nodes", dra.Node)
NAMESPACES: Final = Kind("v1", "Namespace", "namespaces", dra.Namespace)
EVENTS: Final = Kind("events.k8s.io/v1", "Event", "events", dict[str, Any], namespaced=True)
PODS: Final = Kind("v1", "Pod", "pods", dra.Pod, namespaced=True)
RESOURCE_QUOTAS: Final = Kind("v1", "ResourceQuota", "resourcequotas", core.ResourceQuota, namespaced=True)
ADMISSION_POLICIES: Final = Kind(
    "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    core.ValidatingAdmissionPolicy,
)
ADMISSION_BINDINGS: Final = Kind(
    "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    core.ValidatingAdmissionPolicyBinding,
)
DEVICE_TAINT_RULES: Final = Kind("resource.k8s.io/v1", "DeviceTaintRule", "devicetaintrules", dra.DeviceTaintRule)
LEASES: Final = Kind("coordination.k8s.io/v1", "Lease", "leases", coordination.Lease, namespaced=True)
DEVICE_TAINT_RULES_BETA: Final = replace(DEVICE_TAINT_RULES, api_version="resource.k8s.io/v1beta2")
