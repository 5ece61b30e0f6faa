"""How many devices the namespaces of a policy's tenants may ask for: a ResourceQuota in each of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gpusharing.api import names
from gpusharing.api.core import ResourceQuota
from gpusharing.api.dra import Namespace
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.modes import for_mode
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core import quantities
from gpusharing.core.cluster import ownership
from gpusharing.core.cluster.decided import ClusterDecision
from gpusharing.core.intents import Create, Delete, Intent, Patch, Stage, Target
from gpusharing.core.memo import Memo
from gpusharing.core.policies.policy import ExaminedPolicy
from gpusharing.core.reasons import Complaint, DegradedReason
from gpusharing.core.text import listed

Quotas = Mapping[tuple[str, str], ResourceQuota]
"""By namespace and name."""


class _Limited(NamedTuple):
    policy: SharingPolicy
    hard: Mapping[str, str]
    """As a ResourceQuota has it; empty where the policy limits nothing."""


class _InNamespace(NamedTuple):
    """What is decided on the limits of these policies, in a namespace as it is now with these quotas."""

    limited: tuple[_Limited, ...]
    namespace: Namespace | None
    quotas: tuple[ResourceQuota, ...]


class _Found(NamedTuple):
    intents: tuple[Intent, ...]
    not_ours: tuple[str, ...]
    """Policies whose quota somebody else has made."""


def quota_name(policy: str) -> str:
    return names.QUOTA_PREFIX + policy


class QuotaDecider:
    """Remembers the decision on each namespace: there are hundreds, and one changes at a time."""

    def __init__(self) -> None:
        self._limited: Final[Memo[tuple[tuple[ExaminedPolicy, ...]], tuple[_Limited, ...]]] = Memo()
        self._grouped: Final[Memo[tuple[Quotas], Mapping[str, tuple[ResourceQuota, ...]]]] = Memo()
        self._found: Final[Memo[_InNamespace, _Found]] = Memo()

    def decide(
        self, policies: Sequence[ExaminedPolicy], namespaces: Mapping[str, Namespace], existing: Quotas
    ) -> ClusterDecision:
        """The quotas of suspended policies stay as they are."""
        limited = self._limited.one(_limits, (tuple(policies),))
        # A copy: the caller's mapping may change under it.
        quotas = self._grouped.one(_by_namespace, (dict(existing),))
        things = {
            name: _InNamespace(limited, namespaces.get(name), quotas.get(name, ()))
            for name in sorted(namespaces.keys() | quotas.keys())
        }
        intents: list[Intent] = []
        not_ours: defaultdict[str, list[str]] = defaultdict(list)
        for namespace, found in zip(things, self._found.map(_in_namespace, things), strict=True):
            intents += found.intents
            for policy in found.not_ours:
                not_ours[policy].append(namespace)
        complaints = {policy: [_not_ours(policy, named)] for policy, named in not_ours.items()}
        return ClusterDecision(intents=intents, complaints=complaints)


def _limits(things: tuple[tuple[ExaminedPolicy, ...]]) -> tuple[_Limited, ...]:
    [policies] = things
    return tuple(
        _Limited(examined.policy, _hard(examined.policy)) for examined in policies if not examined.is_suspended
    )


def _by_namespace(things: tuple[Quotas]) -> Mapping[str, tuple[ResourceQuota, ...]]:
    [existing] = things
    found: defaultdict[str, list[ResourceQuota]] = defaultdict(list)
    for namespace, name in sorted(existing):
        found[namespace].append(existing[namespace, name])
    return {namespace: tuple(quotas) for namespace, quotas in found.items()}


def _in_namespace(things: _InNamespace) -> _Found:
    limited, namespace, quotas = things
    if namespace is not None and namespace.metadata.labels is None:
        # Whose tenant it is, nobody knows: it gets no quota, and none is taken from it.
        return _Found((), ())
    by_name = {quota.metadata.name: quota for quota in quotas}
    intents: list[Intent] = []
    not_ours: list[str] = []
    for policy, hard in limited:
        if hard and namespace is not None and _has_tenants(namespace, policy):
            quota = by_name.get(quota_name(policy.metadata.name))
            if quota is None:
                intents.append(_create(namespace, policy, hard))
            elif not ownership.is_ours(quota.metadata, policy):
                not_ours.append(policy.metadata.name)
            elif not (_says(quota, hard) and ownership.is_marked(quota.metadata, policy)):
                intents.append(_repair(quota, policy, hard))
        else:
            intents += [
                Delete(target=Target.RESOURCE_QUOTA, stage=Stage.CLASSES, before=quota.metadata)
                for quota in quotas
                if ownership.is_ours(quota.metadata, policy)
            ]
    return _Found(tuple(intents), tuple(not_ours))


def _hard(policy: SharingPolicy) -> Mapping[str, str]:
    quota = policy.spec.tenants.quota
    limits = {sharing: for_mode(quota, sharing) for sharing in Sharing} if quota else {}
    # Under this name Kubernetes counts claims, claims of templates and those of extended resources alike.
    return {
        f"{names.policy_class(policy.metadata.name, sharing)}.deviceclass.resource.k8s.io/devices": str(limit)
        for sharing, limit in limits.items()
        if limit is not None
    }


def _has_tenants(namespace: Namespace, policy: SharingPolicy) -> bool:
    # In one that is being deleted nothing can be made.
    return not namespace.metadata.deletion_timestamp and policy.spec.tenants.namespaces.matches(
        namespace.metadata.labels or {}
    )


def _says(quota: ResourceQuota, hard: Mapping[str, str]) -> bool:
    """The API server rewrites quantities: 1000 comes back as 1k."""
    there = quota.spec.get("hard") or {}
    return (
        quota.spec.keys() == {"hard"}
        and there.keys() == hard.keys()
        and all(quantities.are_equal(str(there[name]), limit) for name, limit in hard.items())
    )


def _create(namespace: Namespace, policy: SharingPolicy, hard: Mapping[str, str]) -> Create:
    metadata = ownership.metadata(quota_name(policy.metadata.name), policy, namespace=namespace.metadata.name)
    body = {"metadata": metadata, "spec": {"hard": dict(hard)}}
    return Create(target=Target.RESOURCE_QUOTA, stage=Stage.CLASSES, body=body)


def _repair(quota: ResourceQuota, policy: SharingPolicy, hard: Mapping[str, str]) -> Patch:
    spec = dict.fromkeys(quota.spec) | {"hard": dict.fromkeys(quota.spec.get("hard") or {}) | dict(hard)}
    return Patch(
        target=Target.RESOURCE_QUOTA,
        stage=Stage.CLASSES,
        before=quota.metadata,
        body={"metadata": ownership.marks(quota.metadata, policy), "spec": spec},
    )


def _not_ours(policy: str, namespaces: Sequence[str]) -> Complaint:
    message = (
        f"ResourceQuota {quota_name(policy)} exists and was not made for this policy: delete or rename it in "
        f"{listed(namespaces)}"
    )
    return Complaint(DegradedReason.RESOURCE_QUOTA_EXISTS, message)
