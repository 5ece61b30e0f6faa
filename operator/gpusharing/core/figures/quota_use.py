"""What namespaces use of the quotas of policies, as Kubernetes counts it when it admits claims."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from gpusharing.api.core import ResourceQuota
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core import quantities
from gpusharing.core.cluster import ownership
from gpusharing.core.cluster.quotas import hard_limits, quota_name, resource_name
from gpusharing.core.figures.rows import Row, bounded, largest


class QuotaUse(NamedTuple):
    used: Mapping[Row, int]
    hard: Mapping[Row, int]
    """The same rows."""


def quota_use(policies: Iterable[SharingPolicy], quotas: Iterable[ResourceQuota]) -> QuotaUse:
    """Of the namespaces with the fewest devices left, and of all others together."""
    by_quota = {quota_name(policy.metadata.name): (policy, _modes(policy)) for policy in policies}
    used: dict[Row, int] = {}
    hard: dict[Row, int] = {}
    for quota in quotas:
        policy, modes = by_quota.get(quota.metadata.name, (None, {}))
        if policy is None or not ownership.is_ours(quota.metadata, policy):
            continue
        for resource, limit in hard_limits(quota).items():
            if sharing := modes.get(resource):
                row = Row(policy.metadata.name, quota.metadata.namespace, sharing)
                used[row], hard[row] = _count(quota.status.used.get(resource, "0")), _count(str(limit))
    shown = largest({row: used[row] - hard[row] for row in used})
    return QuotaUse(bounded(used, shown), bounded(hard, shown))


def _modes(policy: SharingPolicy) -> Mapping[str, Sharing]:
    """By the resource that its quotas count."""
    return {resource_name(policy.metadata.name, sharing): sharing for sharing in Sharing}


@lru_cache(1024)  # Most namespaces have the same.
def _count(quantity: str) -> int:
    try:
        return quantities.whole(quantity)
    except ValueError:
        return 0
