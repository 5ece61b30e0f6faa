"""Fragments for Kueue 0.19: the deviceClassMappings of its Configuration, and queues with the quotas of policies."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from gpusharing.api.dra import Namespace
from gpusharing.api.names import Sharing
from gpusharing.core.policies.policy import ExaminedPolicy
from gpusharing.exporting.charging import Charge, Charged, charged, resource_name
from gpusharing.exporting.queues import Document, Export, Queue, QueuedClass, classes_of, exported, queues_of
from gpusharing.findings.exporting import (
    CHARGED_ALIKE,
    CHARGED_IN_DEVICES,
    NO_QUOTA,
    RESOURCE_REFUSED,
    TOO_MANY_CLASSES,
)
from gpusharing.findings.finding import Finding, Reference

MOST_MAPPINGS: Final = 16
"""Kueue refuses a Configuration with more."""
CAPACITY_GATE: Final = "KueueDRAIntegrationConsumableCapacity"
LOCAL_QUEUE: Final = "gpus"
_API: Final = "kueue.x-k8s.io/v1beta2"
_FLAVOR: Final = "gpus"


def export(policies: Sequence[ExaminedPolicy], namespaces: Sequence[Namespace], charge: Charge) -> Export:
    found, findings = exported(policies)
    classes = [one for policy in found for one in classes_of(policy)]
    how = {one.name: charged(one, charge) for one in classes}
    findings += _findings(classes, charge)
    if not classes:
        return Export((), tuple(findings))
    queues = queues_of(found, namespaces)
    flavor = {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": _FLAVOR}}
    documents = [_configuration(classes, how), Document((), flavor)]
    for queue in queues:
        documents += _queue(queue, how)
    return Export(tuple(documents), tuple(findings))


def _configuration(classes: Sequence[QueuedClass], how: dict[str, Charged]) -> Document:
    mappings = [_mapping(one, how[one.name]) for one in classes]
    body: dict[str, Any] = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    comments = ["Part of the Configuration of Kueue's manager, which reads it when it starts."]
    if any(one.needs_capacity for one in how.values()):
        comments.append(f"Feature gate {CAPACITY_GATE} is alpha.")
        body["featureGates"] = {CAPACITY_GATE: True}
    return Document(tuple(comments), body | {"resources": {"deviceClassMappings": mappings}})


def _mapping(one: QueuedClass, how: Charged) -> dict[str, Any]:
    sources = {"sources": [how.source]} if how.source else {}
    return {"name": resource_name(one, how.unit), "deviceClassNames": [one.name], **sources}


def _queue(queue: Queue, how: dict[str, Charged]) -> Iterator[Document]:
    quotas = [
        {"name": resource_name(one, how[one.name].unit), "nominalQuota": _quota(one, how[one.name])}
        for one in queue.classes
    ]
    spec = {
        "namespaceSelector": queue.selector_json,
        "resourceGroups": [
            {
                "coveredResources": [quota["name"] for quota in quotas],
                "flavors": [{"name": _FLAVOR, "resources": quotas}],
            }
        ],
    }
    comments = [f"For {queue.whose}. Cover cpu, memory and what else they ask for, too."]
    comments += [
        f"Replace the 0: {_why_zero(one, how[one.name])}."
        for one in queue.classes
        if _takes_over(one, how[one.name]) is None
    ]
    if queue.namespace is None and queue.has_tenants:
        comments.append("Quotas are of one namespace: no namespace is known that the policy selects.")
    if queue.namespace is None:
        comments.append(f"In each namespace that uses it, create a LocalQueue {LOCAL_QUEUE} for {queue.name}.")
    body = {"apiVersion": _API, "kind": "ClusterQueue", "metadata": {"name": queue.name}, "spec": spec}
    yield Document(tuple(comments), body)
    if queue.namespace:
        metadata = {"name": LOCAL_QUEUE, "namespace": queue.namespace}
        local = {"apiVersion": _API, "kind": "LocalQueue", "metadata": metadata, "spec": {"clusterQueue": queue.name}}
        yield Document((f"Jobs have the label kueue.x-k8s.io/queue-name: {LOCAL_QUEUE}.",), local)


def _takes_over(one: QueuedClass, how: Charged) -> int | None:
    """The quota of the policy, if it is in this unit: a claim has at least one share."""
    return None if how.unit is Charge.MEMORY else one.quota


def _quota(one: QueuedClass, how: Charged) -> int:
    return _takes_over(one, how) or 0


def _why_zero(one: QueuedClass, how: Charged) -> str:
    policy = one.policy.metadata.name
    if one.quota is None:
        return f"policy {policy} sets no {one.quota_field}"
    return f"{one.quota_field} of policy {policy} counts devices, not {how.unit}"


def _findings(classes: Sequence[QueuedClass], charge: Charge) -> Iterator[Finding]:
    if len(classes) > MOST_MAPPINGS:
        yield TOO_MANY_CLASSES.found(
            Reference("Configuration", "kueue-manager-config"), count=len(classes), most=MOST_MAPPINGS
        )
    for one in classes:
        how = charged(one, charge)
        if _takes_over(one, how) is None:
            resource = resource_name(one, how.unit)
            yield NO_QUOTA.found(one.about(), resource=resource, why=_why_zero(one, how))
        if how.why_not:
            yield CHARGED_IN_DEVICES.found(
                one.about(), device_class=one.name, unit=charge, why=how.why_not, remedy=how.remedy
            )
        elif how.source is None:
            yield from _charged_alike(one)
        if how.source and one.extended_resource:
            yield RESOURCE_REFUSED.found(
                one.about(), resource=one.extended_resource, device_class=one.name, unit=how.unit
            )


def _charged_alike(one: QueuedClass) -> Iterator[Finding]:
    if one.most_shares > 1:
        however = f"also if it asks for more shares of the GPU (at most {one.most_shares})"
        remedy = "Set tenants.allow.maxShares to 1, or use --charge shares."
        yield CHARGED_ALIKE.found(one.about(), device_class=one.name, however=however, remedy=remedy)
    elif one.sharing is Sharing.MIG and _profiles(one) > 1:
        however = "whatever its MIG profile is"
        yield CHARGED_ALIKE.found(one.about(), device_class=one.name, however=however, remedy="Use --charge memory.")


def _profiles(one: QueuedClass) -> int:
    offer = one.policy.spec.offers.mig
    return len(offer.profiles or offer.layout or ()) if offer else 0
