"""The kinds that we read and write: where they live in the API and how their bytes become objects."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Final, Generic, TypeVar

import pydantic

from gpusharing.api import coordination, core, dra, names, strict_json, templates
from gpusharing.api.meta import Identity, PartialObjectMetadata, metadata_of
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.policy import SharingPolicy, UnreadablePolicy

T = TypeVar("T")


class _MetadataList(pydantic.BaseModel):
    metadata: dict[str, Any] = pydantic.Field(default_factory=dict)
    items: tuple[PartialObjectMetadata, ...] | None = ()  # Go writes an empty list as null


@dataclass(frozen=True)
class Page(Generic[T]):
    items: tuple[T, ...]
    resource_version: str
    continue_token: str


_LIST_METADATA: Final = re.compile(rb'"metadata":(\{[^{}]*\}),"items":')


def decode_identities(data: bytes) -> Page[Identity]:
    # By pydantic's own reader, in a sixth of the time: in metadata nobody may write what it would give up on.
    body = _MetadataList.model_validate_json(data.decode(errors="replace"))
    return _page(tuple(item.metadata for item in body.items or ()), body.metadata)


def decode_page(data: bytes) -> Page[Any]:
    """With its objects as JSON. Not by pydantic's own reader: it gives up on what other people may write into opaque
    parameters."""
    match strict_json.loads(data):
        case {"metadata": dict(metadata), "items": list(items)}:
            return _page(tuple(items), metadata)
        case {"metadata": dict(metadata), "items": None}:
            return _page((), metadata)
        case _:
            raise ValueError("not a list")


def decode_page_head(head: bytes) -> Page[Any]:
    """Of a page of which only the beginning was read: where the next one is."""
    found = _LIST_METADATA.search(head)
    if found is None:
        raise ValueError("no metadata of the list")
    return _page((), strict_json.loads(found[1]))


def _page(items: tuple[T, ...], metadata: dict[str, Any]) -> Page[T]:
    return Page(items, metadata.get("resourceVersion", ""), metadata.get("continue", ""))


def require_identity(value: Any) -> Any:
    """An object that no API server sends could not be told from others."""
    match value:
        case {"metadata": {"name": str(), "uid": str(), "resourceVersion": str(version)}} if version.isdecimal():
            return value
        case _:
            raise ValueError("not an object: metadata needs name, uid and resourceVersion")


_RawObject: Any = Annotated[dict[str, Any], pydantic.AfterValidator(require_identity)]


@dataclass(frozen=True)
class Kind(Generic[T]):
    api_version: str
    kind: str
    plural: str
    model: type[T]
    namespaced: bool = False
    unreadable: Callable[[Any], T] | None = None
    """Makes of its metadata what stands for an object that cannot be read, where it matters that it is there."""
    label: str = ""
    """Only objects with this label are listed and watched. One that is asked for by its name is read in any case."""

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

    def as_json(self) -> "Kind[dict[str, Any]]":
        """The same kind with its objects left as JSON: for those who go on where one of them cannot be read."""
        as_json: Any = replace(self, model=_RawObject, unreadable=None)
        kind: Kind[dict[str, Any]] = as_json
        return kind

    def is_listed(self, item: T) -> bool:
        labels: Collection[str] = metadata_of(item).labels if self.label else ()  # type: ignore[attr-defined]
        return not self.label or self.label in labels

    @cached_property
    def _adapter(self) -> pydantic.TypeAdapter[T]:
        return pydantic.TypeAdapter(self.model)


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
# Of those that other people write, and there may be many, nothing is known.
RESOURCE_CLAIM_TEMPLATES: Final = Kind(
    "resource.k8s.io/v1",
    "ResourceClaimTemplate",
    "resourceclaimtemplates",
    templates.ResourceClaimTemplate,
    namespaced=True,
    label=names.POLICY_LABEL,
)
DEVICE_CLASSES: Final = Kind("resource.k8s.io/v1", "DeviceClass", "deviceclasses", dra.DeviceClass)
NODES: Final = Kind("v1", "Node", "nodes", dra.Node)
# As the agent looks at its own, now and then.
NODES_WITH_STATUS: Final = Kind("v1", "Node", "nodes", core.NodeWithStatus)
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
ENDPOINT_SLICES: Final = Kind(
    "discovery.k8s.io/v1", "EndpointSlice", "endpointslices", core.EndpointSlice, namespaced=True
)
LEASES: Final = Kind("coordination.k8s.io/v1", "Lease", "leases", coordination.Lease, namespaced=True)
DEVICE_TAINT_RULES_BETA: Final = replace(DEVICE_TAINT_RULES, api_version="resource.k8s.io/v1beta2")
