"""What is decided for the cluster as a whole, whatever its nodes and claims do: classes, guards, quotas, templates."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from gpusharing.api.dra import DeviceClass, Namespace
from gpusharing.core.cluster.decided import ClusterDecision
from gpusharing.core.cluster.device_classes import class_intents, plan_classes
from gpusharing.core.cluster.guards.upkeep import Bindings, Guards, update_guards
from gpusharing.core.cluster.quotas import QuotaDecider, Quotas
from gpusharing.core.cluster.templates import TemplateDecider, Templates
from gpusharing.core.memo import Memo
from gpusharing.core.policies.policy import ExaminedPolicy
from gpusharing.core.reasons import Complaint
from gpusharing.core.state.cluster_state import Setup
from gpusharing.core.state.seen_entries import SeenEntries


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What that is decided on. Neither nodes nor claims are in it: they change all the time."""

    policies: Sequence[ExaminedPolicy]
    """In the order of their names."""
    classes: Mapping[str, DeviceClass]
    namespaces: Mapping[str, Namespace]
    guards: Guards
    bindings: Bindings
    seen_entries: SeenEntries
    quotas: Quotas
    templates: Templates
    setup: Setup


_ClassesAndGuards = tuple[ClusterDecision, AbstractSet[str]]
"""With the names of the classes that there are to be."""
_OfPolicies = tuple[tuple[ExaminedPolicy, ...], Mapping[str, DeviceClass], Guards, Bindings, SeenEntries, str]


class ClusterDecider:
    """Remembers its last decision, so that the label of a namespace costs nothing of classes and guards."""

    def __init__(self) -> None:
        self._of_policies: Final[Memo[_OfPolicies, _ClassesAndGuards]] = Memo()
        self._quotas: Final = QuotaDecider()
        self._templates: Final = TemplateDecider()

    def decide(self, cluster: Cluster) -> ClusterDecision:
        decided, classes = self._of_policies.one(
            _classes_and_guards,
            (
                tuple(cluster.policies),
                # Copies: the caller's mappings may change under it.
                dict(cluster.classes),
                dict(cluster.guards),
                dict(cluster.bindings),
                cluster.seen_entries,
                cluster.setup.driver,
            ),
        )
        quotas = self._quotas.decide(cluster.policies, cluster.namespaces, cluster.quotas)
        templates = self._templates.decide(
            cluster.policies,
            cluster.namespaces,
            cluster.templates,
            classes=classes,
            guards_pending=decided.guards_pending,
            driver=cluster.setup.driver,
        )
        return ClusterDecision(
            intents=[*decided.intents, *quotas.intents, *templates.intents],
            complaints=_joined(decided.complaints, quotas.complaints, templates.complaints),
            guards_pending=decided.guards_pending,
        )


def _classes_and_guards(things: _OfPolicies) -> _ClassesAndGuards:
    policies, classes, guards, bindings, seen, driver = things
    planned = plan_classes(policies, classes)
    update = update_guards(policies, planned.classes, guards, bindings, seen)
    decided = ClusterDecision(
        # Nobody is let in before the guards know of it.
        intents=[*update.intents, *class_intents(planned, driver, guards_pending=update.guards_pending)],
        complaints=_joined(update.complaints, planned.complaints),
        guards_pending=update.guards_pending,
    )
    return decided, frozenset(item.name for item in planned.classes)


def _joined(*found: Mapping[str, Sequence[Complaint]]) -> Mapping[str, Sequence[Complaint]]:
    joined: defaultdict[str, list[Complaint]] = defaultdict(list)
    for by_policy in found:
        for policy, complaints in by_policy.items():
            joined[policy] += complaints
    return joined
