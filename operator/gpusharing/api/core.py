"""Kinds of Kubernetes that the operator keeps beside those of DRA. Specs stay as they were read, to be compared."""

from typing import Annotated, Any

from pydantic.dataclasses import dataclass

from gpusharing.api.meta import FROZEN_CONFIG, EmptyDict, EmptyTuple, ObjectMeta, OwnedMeta


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class ResourceQuota:
    metadata: OwnedMeta
    spec: Annotated[dict[str, Any], EmptyDict]


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
