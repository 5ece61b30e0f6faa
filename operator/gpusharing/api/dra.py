"""resource.k8s.io/v1 and the core kinds beside it, as far as we read them."""

from dataclasses import field
from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from gpusharing.api.meta import FROZEN_CONFIG, Common, EmptyDict, EmptyTuple, ObjectMeta, StringMap, Strings


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class OpaqueConfig:
    driver: str
    parameters: Any = None


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class AllocationConfig:
    source: Common
    requests: Strings = ()
    opaque: OpaqueConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class AllocationResult:
    request: Common
    driver: Common
    pool: Common
    device: Common
    admin_access: bool | None = None
    share_id: Annotated[str | None, Field(alias="shareID")] = None
    consumed_capacity: StringMap = field(default_factory=dict)
    tolerations: Annotated[tuple[dict[str, Any], ...], EmptyTuple] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class DeviceAllocation:
    results: Annotated[tuple[AllocationResult, ...], EmptyTuple] = ()
    config: Annotated[tuple[AllocationConfig, ...], EmptyTuple] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class Allocation:
    devices: DeviceAllocation = DeviceAllocation()
    allocation_timestamp: str | None = None


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
    device_class_name: Common = ""


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
    metadata: ObjectMeta
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class DeviceClassSpec:
    selectors: Annotated[tuple[dict[str, Any], ...], EmptyTuple] = ()
    config: Annotated[tuple[dict[str, Any], ...], EmptyTuple] = ()
    extended_resource_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class DeviceClass:
    metadata: ObjectMeta
    spec: DeviceClassSpec = DeviceClassSpec()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class ResourceSlice:
    """The spec stays as it was read: a slice is only ever compared with the one that we would publish."""

    metadata: ObjectMeta
    spec: Annotated[dict[str, Any], EmptyDict]


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class DeviceTaintRuleSpec:
    device_selector: StringMap = field(default_factory=dict)
    taint: Annotated[dict[str, Any], EmptyDict] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class DeviceTaintRule:
    metadata: ObjectMeta
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class Node:
    metadata: ObjectMeta


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class Namespace:
    metadata: ObjectMeta


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
