"""What namespaces use of the quotas of policies, as Kubernetes counts it when it admits claims."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpusharing.api import names
from gpusharing.api.core import ResourceQuota
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core import quantities
from gpusharing.core.cluster import ownership
from gpusharing.core.cluster.quotas import resource_name
from gpusharing.core.figures.rows import Row, bounded, largest


class QuotaUse(NamedTuple):
    used: Mapping[Row, int]
    hard: Mapping[Row, int]
    """The same rows."""


def quota_use(policies: Iterable[SharingPolicy], quotas: Iterable[ResourceQuota]) -> QuotaUse:
    """Of the namespaces with the fewest devices left, and of all others together."""
    by_name = {policy.metadata.name: policy for policy in policies}
    used: dict[Row, int] = {}
    hard: dict[Row, int] = {}
    for quota in quotas:
        policy = by_name.get(quota.metadata.name.removeprefix(names.QUOTA_PREFIX))
        if policy is None or not ownership.is_ours(quota.metadata, policy):
            continue
        for sharing in Sharing:
            resource = resource_name(policy.metadata.name, sharing)
            limit = (quota.spec.get("hard") or {}).get(resource)
            if limit is not None:
                row = Row(policy.metadata.name, quota.metadata.namespace, sharing)
                used[row], hard[row] = _count(quota.status.used.get(resource, "0")), _count(limit)
    shown = largest({row: used[row] - hard[row] for row in used})
    return QuotaUse(bounded(used, shown), bounded(hard, shown))


def _count(quantity: object) -> int:
    """The API server stores nothing else but quantities; a number has no upper end, though."""
    try:
        return quantities.whole(str(quantity))
    except ValueError:
        return 0
