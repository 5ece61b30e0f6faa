"""What is decided for the cluster as a whole, whatever its nodes and claims do: classes, guards and quotas."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusharing.api.dra import DeviceClass, Namespace
from gpusharing.core import classes
from gpusharing.core.acceptance import Candidate
from gpusharing.core.complaints import Complaint
from gpusharing.core.guards.upkeep import Guards, needs_guards, upkeep
from gpusharing.core.intents import Intent
from gpusharing.core.listed import listed
from gpusharing.core.quotas import Quotas, quotas
from gpusharing.core.world import Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What that is decided on. Neither nodes nor claims are in it: they change all the time."""

    candidates: Sequence[Candidate]
    """In the order of their names."""
    classes: Mapping[str, DeviceClass]
    namespaces: Mapping[str, Namespace]
    guards: Guards
    quotas: Quotas
    setup: Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDecision:
    intents: Sequence[Intent]
    complaints: Mapping[str, Sequence[Complaint]]
    """By policy."""
    untold: frozenset[str]
    """Policies of whose tenants admission does not know yet what they say now."""


def cluster_decision(cluster: Cluster) -> ClusterDecision:
    planned = classes.plan(cluster.candidates, cluster.classes)
    kept = upkeep(cluster.candidates, planned.classes, cluster.guards)
    quota = quotas(cluster.candidates, cluster.namespaces, cluster.quotas)
    complaints: defaultdict[str, list[Complaint]] = defaultdict(list)
    for candidate in cluster.candidates:
        if kept.missing and needs_guards(candidate.policy):
            complaints[candidate.name].append(_guard_missing(kept.missing))
        for found in (planned.complaints, quota.complaints):
            complaints[candidate.name] += found.get(candidate.name, ())
    return ClusterDecision(
        intents=[
            *kept.intents,
            # Nobody is let in before the guards know of it.
            *classes.intents(planned, cluster.setup.driver, not_yet=kept.untold),
            *quota.intents,
        ],
        complaints=complaints,
        untold=kept.untold,
    )


def _guard_missing(guards: Sequence[str]) -> Complaint:
    message = (
        f"ValidatingAdmissionPolicy {listed(guards)} is not installed as in manifests/base, or the operator may not "
        "read it: apply manifests/base. Until then its GPUs are prepared for nobody but its tenants, and there are no "
        "new classes"
    )
    return Complaint("GuardMissing", message)
