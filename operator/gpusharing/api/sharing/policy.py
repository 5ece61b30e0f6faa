"""SharingPolicy: how GPUs are to be shared, and the status of that."""

from typing import Any, Self

from gpusharing.api.base import ApiModel
from gpusharing.api.meta import ObjectMeta
from gpusharing.api.sharing.offers import Offers
from gpusharing.api.sharing.policy_spec import SharingPolicySpec
from gpusharing.api.sharing.policy_status import SharingPolicyStatus


class SharingPolicy(ApiModel):
    """Decides how GPUs are shared: which GPUs, in which modes, by which namespaces, and how much a claim may use.
    Several policies may select the same GPU; exactly one of them wins it. `spec.offers` is the only required field."""

    metadata: ObjectMeta
    spec: SharingPolicySpec
    """Which GPUs are shared, and how."""
    status: SharingPolicyStatus = SharingPolicyStatus()
    """The state of this policy. Written by the operator."""


class UnreadablePolicy(SharingPolicy):
    """A policy that this version cannot read, because it was written for another one: only its metadata is known."""

    @classmethod
    def of(cls, metadata: Any) -> Self:
        return cls(metadata=metadata, spec=SharingPolicySpec(offers=Offers()))
