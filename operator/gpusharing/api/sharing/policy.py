"""SharingPolicy: what a platform team wants, and what has become of it."""

from typing import Any, Self

from gpusharing.api.base import ApiModel
from gpusharing.api.meta import ObjectMeta
from gpusharing.api.sharing.offers import Offers
from gpusharing.api.sharing.policy_spec import SharingPolicySpec
from gpusharing.api.sharing.policy_status import SharingPolicyStatus


class SharingPolicy(ApiModel):
    """Which GPUs are shared, in which ways, by whom and how much."""

    metadata: ObjectMeta
    spec: SharingPolicySpec
    """What the platform team wants."""
    status: SharingPolicyStatus = SharingPolicyStatus()
    """What has become of it, written by the operator."""


class UnreadablePolicy(SharingPolicy):
    """One of which this program understands no more than that it is there: it was written for another version."""

    @classmethod
    def of(cls, metadata: Any) -> Self:
        return cls(metadata=metadata, spec=SharingPolicySpec(offers=Offers()))
