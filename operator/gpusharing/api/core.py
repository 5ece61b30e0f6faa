"""Kinds of Kubernetes that the operator keeps beside those of DRA. Specs stay as they were read, to be compared."""

from dataclasses import field
from typing import Annotated, Any, Final

from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from gpusharing.api.meta import FROZEN_CONFIG, EmptyDict, EmptyTuple, ObjectMeta, OwnedMeta

DEVICES_OF_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
"""After the name of a class: under this name Kubernetes counts claims, claims of templates and those of extended
resources alike."""


def _of_classes(value: Any) -> dict[str, str]:
    counts = value.items() if isinstance(value, dict) else ()
    return {str(name): str(count) for name, count in counts if str(name).endswith(DEVICES_OF_CLASS)}


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class ResourceQuotaStatus:
    used: Annotated[dict[str, str], BeforeValidator(_of_classes)] = field(default_factory=dict)
    """Only devices by their class: quotas of others count much else."""


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class ResourceQuota:
    metadata: OwnedMeta
    spec: Annotated[dict[str, Any], EmptyDict]
    status: ResourceQuotaStatus = field(default_factory=ResourceQuotaStatus)


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class ValidatingAdmissionPolicy:
    metadata: ObjectMeta
    spec: Annotated[dict[str, Any], EmptyDict]


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class ValidatingAdmissionPolicyBinding:
    metadata: ObjectMeta
    spec: Annotated[dict[str, Any], EmptyDict]


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class NodeWithStatus:
    metadata: OwnedMeta
    status: Annotated[dict[str, Any], EmptyDict]


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class EndpointSlice:
    metadata: ObjectMeta
    endpoints: Annotated[tuple[dict[str, Any], ...], EmptyTuple] = ()
    ports: Annotated[tuple[dict[str, Any], ...], EmptyTuple] = ()
