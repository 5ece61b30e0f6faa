"""resource.k8s.io/v1 and the core kinds beside it, as far as we read them."""

import re
from dataclasses import field
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic.dataclasses import dataclass

from gpusharing.api.meta import (
    FROZEN_CONFIG,
    Common,
    EmptyDict,
    EmptyTuple,
    LabelledMeta,
    NamespaceMeta,
    ObjectMeta,
    OwnedMeta,
    OwnerReference,
    OwnerReferences,
    StringMap,
    Strings,
    WholeMeta,
)

_POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
_MOST_PODS: Final = 8
_LONGEST_NAME: Final = 253
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _pod_claim_name(value: Any) -> Any:
    name = value.get(_POD_CLAIM_NAME) if isinstance(value, dict) else value
    return name if isinstance(name, str) and _DNS_LABEL.fullmatch(name) else None


def _pods(owners: tuple[OwnerReference, ...]) -> tuple[OwnerReference, ...]:
    """Anybody may name anything as the owner of a claim."""
    pods = [
        owner
        for owner in owners
        if (owner.api_version, owner.kind) == ("v1", "Pod") and max(len(owner.name), len(owner.uid)) <= _LONGEST_NAME
    ]
    return tuple(pods[:_MOST_PODS])


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class ClaimMeta(ObjectMeta):
    pod_claim_name: Annotated[str | None, Field(validation_alias="annotations"), BeforeValidator(_pod_claim_name)] = (
        None
    )
    """What a pod calls it that has its claims made from templates."""
    owner_references: Annotated[OwnerReferences, AfterValidator(_pods)] = ()
    """The pods for which it was made."""


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class OpaqueConfig:
    driver: str
    parameters: Any = None
    """As they were written; in claims that are kept, as they were understood."""


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class AllocationConfig:
    source: Common
    requests: Strings = ()
    opaque: OpaqueConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class Toleration:
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class AllocationResult:
    request: str
    driver: Common
    pool: Common
    device: Common
    admin_access: bool | None = None
    share_id: Annotated[str | None, Field(alias="shareID")] = None
    consumed_capacity: StringMap = field(default_factory=dict)
    tolerations: Annotated[tuple[Toleration, ...], EmptyTuple] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class DeviceAllocation:
    results: Annotated[tuple[AllocationResult, ...], EmptyTuple] = ()
    config: Annotated[tuple[AllocationConfig, ...], EmptyTuple] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class Allocation:
    devices: DeviceAllocation = DeviceAllocation()
    allocation_timestamp: str | None = None
    digest: str | None = None
    """In claims that are kept, of what was written. The API has no such field."""


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class ResourceClaimConsumer:
    """Who uses a claim: mostly pods."""

    resource: str
    name: str
    uid: str = ""
    api_group: Common = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class ResourceClaimStatus:
    allocation: Allocation | None = None
    reserved_for: Annotated[tuple[ResourceClaimConsumer, ...], EmptyTuple] = ()
    # Entries of other drivers are written back as they were read: kept whole.
    devices: Annotated[tuple[dict[str, Any], ...], EmptyTuple] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class Wish:
    device_class_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class DeviceRequest:
    exactly: Wish | None = None
    first_available: Annotated[tuple[Wish, ...], EmptyTuple] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class DeviceClaim:
    requests: Annotated[tuple[DeviceRequest, ...], EmptyTuple] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class ResourceClaimSpec:
    devices: DeviceClaim = DeviceClaim()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class ResourceClaim:
    metadata: ClaimMeta
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class DeviceClassSpec:
    selectors: Annotated[tuple[dict[str, Any], ...], EmptyTuple] = ()
    config: Annotated[tuple[dict[str, Any], ...], EmptyTuple] = ()
    extended_resource_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class DeviceClass:
    metadata: OwnedMeta
    spec: DeviceClassSpec = DeviceClassSpec()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class ResourceSlice:
    """The spec stays as it was read: a slice is only ever compared with the one that we would publish."""

    metadata: WholeMeta
    spec: Annotated[dict[str, Any], EmptyDict]


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class DeviceTaintRuleSpec:
    device_selector: StringMap = field(default_factory=dict)
    taint: Annotated[dict[str, Any], EmptyDict] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class DeviceTaintRule:
    metadata: LabelledMeta
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


def _not_ready_since(status: Any) -> Any:
    """Of all that a Node reports, this is what decisions use."""
    conditions = (status.get("conditions") or ()) if isinstance(status, dict) else None
    if conditions is None:
        return status
    since = [
        condition.get("lastTransitionTime")
        for condition in conditions
        if condition.get("type") == "Ready" and condition.get("status") != "True"
    ]
    return since[0] if since else None


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class Node:
    metadata: LabelledMeta
    not_ready_since: Annotated[str | None, BeforeValidator(_not_ready_since), Field(alias="status")] = None
    """Since when it is not Ready: its kubelet is not heard from, or cannot run pods."""


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class Namespace:
    metadata: NamespaceMeta


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class PodResourceClaim:
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class PodSpec:
    node_name: str = ""
    resource_claims: Annotated[tuple[PodResourceClaim, ...], EmptyTuple] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class Pod:
    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
