"""How many devices the namespaces of a policy's tenants may ask for: a ResourceQuota in each of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.core import DEVICES_OF_CLASS, ResourceQuota
from gpusharing.api.dra import Namespace
from gpusharing.api.meta import Key
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.modes import for_mode
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core import quantities
from gpusharing.core.cluster.decided import ClusterDecision
from gpusharing.core.cluster.in_namespaces import Belonging, NamespaceDecider, Wanted
from gpusharing.core.intents import Target
from gpusharing.core.memo import Memo
from gpusharing.core.policies.policy import ExaminedPolicy
from gpusharing.core.reasons import DegradedReason

Quotas = Mapping[Key, ResourceQuota]
"""By namespace and name."""


def quota_name(policy: str) -> str:
    return names.QUOTA_PREFIX + policy


def resource_name(policy: str, sharing: Sharing) -> str:
    return names.policy_class(policy, sharing) + DEVICES_OF_CLASS


def hard_limits(quota: ResourceQuota) -> Mapping[str, Any]:
    """By resource."""
    hard = quota.spec.get("hard")
    return hard if isinstance(hard, dict) else {}


class QuotaDecider:
    def __init__(self) -> None:
        self._wanted: Final[Memo[tuple[tuple[ExaminedPolicy, ...]], tuple[Wanted, ...]]] = Memo()
        self._namespaces: Final = NamespaceDecider(_QUOTAS)

    def decide(
        self, policies: Sequence[ExaminedPolicy], namespaces: Mapping[str, Namespace], existing: Quotas
    ) -> ClusterDecision:
        """The quotas of suspended policies stay as they are."""
        wanted = self._wanted.one(_wanted, (tuple(policies),))
        return self._namespaces.decide(wanted, namespaces, existing)


def _wanted(things: tuple[tuple[ExaminedPolicy, ...]]) -> tuple[Wanted, ...]:
    [policies] = things
    return tuple(_of_policy(examined.policy) for examined in policies if not examined.is_suspended)


def _of_policy(policy: SharingPolicy) -> Wanted:
    quota = policy.spec.tenants.quota
    limits = {sharing: for_mode(quota, sharing) for sharing in Sharing} if quota else {}
    hard = {
        resource_name(policy.metadata.name, sharing): str(limit)
        for sharing, limit in limits.items()
        if limit is not None
    }
    return Wanted(policy, {quota_name(policy.metadata.name): {"hard": hard}} if hard else {})


def _is_right(quota: ResourceQuota, spec: Mapping[str, Any]) -> bool:
    """The API server rewrites quantities: 1000 comes back as 1k."""
    there, hard = hard_limits(quota), spec["hard"]
    return (
        quota.spec.keys() == {"hard"}
        and there.keys() == hard.keys()
        and all(quantities.are_equal(str(there[name]), limit) for name, limit in hard.items())
    )


def _patch(quota: ResourceQuota, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return dict.fromkeys(quota.spec) | {"hard": dict.fromkeys(hard_limits(quota)) | spec["hard"]}


_QUOTAS: Final = Belonging(
    target=Target.RESOURCE_QUOTA,
    is_right=_is_right,
    patch=_patch,
    not_ours=DegradedReason.RESOURCE_QUOTA_EXISTS,
)
