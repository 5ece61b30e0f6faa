"""What is decided for the cluster as a whole, whatever its nodes and claims do: classes, guards and quotas."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpusharing.api.dra import DeviceClass, Namespace
from gpusharing.core.cluster import device_classes
from gpusharing.core.cluster.guards.upkeep import Bindings, Guards, needs_guards, upkeep
from gpusharing.core.cluster.quotas import Quotas, quotas
from gpusharing.core.intents import Intent
from gpusharing.core.policies.policy import Candidate
from gpusharing.core.reasons import Complaint, DegradedReason
from gpusharing.core.state.cluster_state import Setup
from gpusharing.core.text import listed


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What that is decided on. Neither nodes nor claims are in it: they change all the time."""

    candidates: Sequence[Candidate]
    """In the order of their names."""
    classes: Mapping[str, DeviceClass]
    namespaces: Mapping[str, Namespace]
    guards: Guards
    bindings: Bindings
    quotas: Quotas
    setup: Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDecision:
    intents: Sequence[Intent] = ()
    complaints: Mapping[str, Sequence[Complaint]] = field(default_factory=dict)
    """By policy."""
    untold: frozenset[str] = frozenset()
    """Policies of whose tenants admission does not know yet what they say now."""

    def differs_for(self, other: "ClusterDecision") -> set[str]:
        """The policies of which it says something else."""
        named = self.complaints.keys() | other.complaints.keys()
        return {name for name in named if self.complaints.get(name) != other.complaints.get(name)} | (
            self.untold ^ other.untold
        )


def cluster_decision(cluster: Cluster) -> ClusterDecision:
    planned = device_classes.plan(cluster.candidates, cluster.classes)
    kept = upkeep(cluster.candidates, planned.classes, cluster.guards, cluster.bindings)
    quota = quotas(cluster.candidates, cluster.namespaces, cluster.quotas)
    complaints: defaultdict[str, list[Complaint]] = defaultdict(list)
    if kept.missing:
        for candidate in cluster.candidates:
            if needs_guards(candidate.policy):
                complaints[candidate.name].append(_guard_missing(kept.missing))
    for found in (planned.complaints, quota.complaints):
        for name, said in found.items():
            complaints[name] += said
    return ClusterDecision(
        intents=[
            *kept.intents,
            # Nobody is let in before the guards know of it.
            *device_classes.intents(planned, cluster.setup.driver, not_yet=kept.untold),
            *quota.intents,
        ],
        complaints=complaints,
        untold=kept.untold,
    )


def _guard_missing(guards: Sequence[str]) -> Complaint:
    message = (
        f"{listed(guards)} is not installed as in manifests/base, or the operator may not read it: apply "
        "manifests/base. Until then its GPUs are prepared for nobody but its tenants, and there are no new classes"
    )
    return Complaint(DegradedReason.GUARD_MISSING, message)
