"""The Lease of coordination.k8s.io/v1, as far as we read it."""

from pydantic.dataclasses import dataclass

from gpusharing.api.meta import FROZEN_CONFIG, ObjectMeta


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class LeaseSpec:
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class Lease:
    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()
