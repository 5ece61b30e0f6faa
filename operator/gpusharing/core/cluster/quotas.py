"""How much the namespaces of a policy's tenants may ask for: a ResourceQuota in each of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpusharing.api import names
from gpusharing.api.core import ResourceQuota
from gpusharing.api.dra import Namespace
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.cluster import ownership
from gpusharing.core.cluster.device_classes import of_way
from gpusharing.core.intents import Create, Delete, Intent, Patch, Stage, Target
from gpusharing.core.policies.policy import Candidate
from gpusharing.core.reasons import Complaint, DegradedReason
from gpusharing.core.text import listed

Quotas = Mapping[tuple[str, str], ResourceQuota]
"""By namespace and name."""


class QuotaDecision(NamedTuple):
    intents: Sequence[Intent]
    complaints: Mapping[str, Sequence[Complaint]]
    """By policy."""


def quota_name(policy: str) -> str:
    return names.QUOTA_PREFIX + policy


def quotas(candidates: Sequence[Candidate], namespaces: Mapping[str, Namespace], existing: Quotas) -> QuotaDecision:
    """For policies that are in force as they are. The quotas of others stay as they are."""
    intents: list[Intent] = []
    complaints: dict[str, Sequence[Complaint]] = {}
    made = _by_policy(existing)
    for candidate in candidates:
        policy = candidate.policy
        if candidate.rests or policy.metadata.deletion_timestamp:
            continue
        hard = _hard(policy)
        tenants = _tenants(policy, namespaces) if hard else ()
        foreign = []
        for namespace in tenants:
            quota = existing.get((namespace, quota_name(candidate.name)))
            if quota is None:
                body = {
                    "metadata": ownership.metadata(quota_name(candidate.name), policy, namespace=namespace),
                    "spec": {"hard": hard},
                }
                intents.append(Create(target=Target.RESOURCE_QUOTA, stage=Stage.CLASSES, body=body))
            elif not ownership.is_ours(quota.metadata, policy):
                foreign.append(namespace)
            elif quota.spec != {"hard": hard} or not ownership.is_labelled(quota.metadata, policy):
                intents.append(_repair(quota, policy, hard))
        intents += [
            Delete(target=Target.RESOURCE_QUOTA, stage=Stage.CLASSES, before=quota.metadata)
            for quota in made.get(policy.metadata.uid, ())
            if quota.metadata.namespace not in tenants
        ]
        if foreign:
            complaints[candidate.name] = [_not_ours(candidate.name, foreign)]
    return QuotaDecision(intents, complaints)


def _by_policy(existing: Quotas) -> Mapping[str, Sequence[ResourceQuota]]:
    """By the policy's uid."""
    found: defaultdict[str, list[ResourceQuota]] = defaultdict(list)
    for _, quota in sorted(existing.items()):
        for reference in quota.metadata.owner_references:
            found[str(reference.get("uid"))].append(quota)
    return found


def _hard(policy: SharingPolicy) -> dict[str, str]:
    quota = policy.spec.tenants.quota
    limits = {sharing: of_way(quota, sharing) for sharing in Sharing} if quota else {}
    # Under this name Kubernetes counts claims, claims of templates and those of extended resources alike.
    return {
        f"{names.policy_class(policy.metadata.name, sharing)}.deviceclass.resource.k8s.io/devices": str(limit)
        for sharing, limit in limits.items()
        if limit is not None
    }


def _tenants(policy: SharingPolicy, namespaces: Mapping[str, Namespace]) -> Sequence[str]:
    return [
        name
        for name, namespace in sorted(namespaces.items())
        if policy.spec.tenants.namespaces.matches(namespace.metadata.labels)
        # In one that is going nothing can be made.
        and not namespace.metadata.deletion_timestamp
    ]


def _repair(quota: ResourceQuota, policy: SharingPolicy, hard: dict[str, str]) -> Patch:
    spec = dict.fromkeys(quota.spec) | {"hard": dict.fromkeys(quota.spec.get("hard", {})) | hard}
    labels = {names.POLICY_LABEL: policy.metadata.name}
    return Patch(
        target=Target.RESOURCE_QUOTA,
        stage=Stage.CLASSES,
        before=quota.metadata,
        body={"metadata": {"labels": labels}, "spec": spec},
    )


def _not_ours(policy: str, namespaces: Sequence[str]) -> Complaint:
    message = (
        f"ResourceQuota {quota_name(policy)} is there already and not of this policy: rename or delete it in "
        f"{listed(namespaces)}"
    )
    return Complaint(DegradedReason.QUOTA_NOT_OURS, message)
