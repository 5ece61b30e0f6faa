"""Which device classes may be queued for, by whose jobs, and how many devices they may have.

The quota of a policy is for each namespace of its tenants. So each of these has a queue of its own: one queue for all
of them would admit jobs whose claims the ResourceQuota of their namespace then refuses.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gpusharing.api import names
from gpusharing.api.dra import Namespace
from gpusharing.api.meta import LabelSelector
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.modes import FIELDS, for_mode
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.policies.policy import ExaminedPolicy
from gpusharing.findings.exporting import NO_CLASSES
from gpusharing.findings.finding import Finding, Reference

_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"


class Document(NamedTuple):
    """An object of an export."""

    comments: tuple[str, ...]
    body: Mapping[str, Any]


class Export(NamedTuple):
    documents: tuple[Document, ...]
    findings: tuple[Finding, ...]


class QueuedClass(NamedTuple):
    """A device class of a policy."""

    policy: SharingPolicy
    sharing: Sharing

    @property
    def name(self) -> str:
        return names.policy_class(self.policy.metadata.name, self.sharing)

    @property
    def quota(self) -> int | None:
        """Devices of each namespace; None: the policy sets no limit."""
        quota = self.policy.spec.tenants.quota
        limit: int | None = for_mode(quota, self.sharing) if quota else None
        return limit

    @property
    def quota_field(self) -> str:
        return f"tenants.quota.{FIELDS[self.sharing]}"

    @property
    def extended_resource(self) -> str | None:
        resource: str | None = for_mode(self.policy.spec.classes.extended_resources, self.sharing)
        return resource

    @property
    def most_shares(self) -> int:
        """Of one device, for one claim; 1 where a device has none."""
        offer = for_mode(self.policy.spec.offers, self.sharing)
        if self.sharing not in {Sharing.TIME_SLICING, Sharing.MPS}:
            return 1
        clients: int = offer.max_clients
        return min(clients, self.policy.spec.tenants.allow.max_shares or clients)

    def about(self) -> Reference:
        return Reference("DeviceClass", self.name)


class Queue(NamedTuple):
    """Of the jobs of one namespace, or of all that a selector selects."""

    name: str
    namespace: str | None
    selector: LabelSelector
    classes: tuple[QueuedClass, ...]

    @property
    def whose(self) -> str:
        if self.namespace:
            return f"jobs of namespace {self.namespace}"
        return "jobs of the namespaces that the policy selects" if self.has_tenants else "jobs of all namespaces"

    @property
    def has_tenants(self) -> bool:
        return self.selector != LabelSelector()

    @property
    def selector_json(self) -> Mapping[str, Any]:
        return {name: value for name, value in self.selector.to_json().items() if value}


def exported(policies: Sequence[ExaminedPolicy]) -> tuple[list[SharingPolicy], list[Finding]]:
    """The policies that have classes, in the order of their names, and why others have none."""
    found: list[SharingPolicy] = []
    findings: list[Finding] = []
    for examined in sorted(policies, key=lambda one: one.name):
        about = Reference("SharingPolicy", examined.name)
        if examined.objection:
            why = f"it is not accepted ({examined.objection.message})"
            findings.append(NO_CLASSES.found(about, policy=examined.name, why=why, remedy="Correct the policy."))
        elif not examined.policy.spec.classes.create:
            remedy = "Set classes.create to true."
            findings.append(NO_CLASSES.found(about, policy=examined.name, why="classes.create is false", remedy=remedy))
        else:
            found.append(examined.policy)
    return found, findings


def classes_of(policy: SharingPolicy) -> tuple[QueuedClass, ...]:
    return tuple(
        QueuedClass(policy, sharing) for sharing in Sharing if for_mode(policy.spec.offers, sharing) is not None
    )


def queues_of(policies: Sequence[SharingPolicy], namespaces: Sequence[Namespace]) -> list[Queue]:
    """One for each namespace of tenants. A policy of which no tenant is known, or that has none, has a queue itself."""
    with_tenants = [policy for policy in policies if policy.spec.tenants.namespaces != LabelSelector()]
    of_namespaces: list[Queue] = []
    known: set[str] = set()
    for namespace in sorted(namespaces, key=lambda one: one.metadata.name):
        mine = [policy for policy in with_tenants if _is_tenant(namespace, policy)]
        if mine:
            known.update(policy.metadata.name for policy in mine)
            of_namespaces.append(_of_namespace(namespace.metadata.name, mine))
    others = (policy for policy in policies if policy.metadata.name not in known)
    return [*of_namespaces, *map(_of_policy, others)]


def _is_tenant(namespace: Namespace, policy: SharingPolicy) -> bool:
    metadata = namespace.metadata
    return not metadata.deletion_timestamp and policy.spec.tenants.namespaces.matches(metadata.labels or {})


def _of_namespace(name: str, policies: Sequence[SharingPolicy]) -> Queue:
    selector = LabelSelector(match_labels={_NAMESPACE_NAME: name})
    return Queue(f"namespace-{name}", name, selector, tuple(_all_classes(policies)))


def _of_policy(policy: SharingPolicy) -> Queue:
    return Queue(f"policy-{policy.metadata.name}", None, policy.spec.tenants.namespaces, classes_of(policy))


def _all_classes(policies: Sequence[SharingPolicy]) -> Iterator[QueuedClass]:
    for policy in policies:
        yield from classes_of(policy)
