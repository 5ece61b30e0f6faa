"""Fragments for Volcano 1.15: queues of its capacity plugin with the quotas of policies.

If a queue limits a class, Volcano refuses every claim of it that asks for a capacity on which the queue sets no limit.
So limits of these stand in the queue, too: as much as that many devices can have.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gpusharing.api.dra import Namespace
from gpusharing.api.names import Sharing
from gpusharing.core.policies.policy import ExaminedPolicy
from gpusharing.exporting.queues import Document, Export, Queue, QueuedClass, classes_of, exported, queues_of
from gpusharing.findings.exporting import ZERO_IS_NO_LIMIT
from gpusharing.findings.finding import Finding

_API: Final = "scheduling.volcano.sh/v1beta1"
_MORE_THAN_A_GPU_HAS: Final = 1024
"""Gibibytes."""


def export(policies: Sequence[ExaminedPolicy], namespaces: Sequence[Namespace]) -> Export:
    found, findings = exported(policies)
    findings += _findings(found_class for policy in found for found_class in classes_of(policy))
    queues = queues_of(found, namespaces)
    return Export(tuple(map(_queue, queues)), tuple(findings))


def _queue(queue: Queue) -> Document:
    capability: dict[str, str] = {}
    for one in queue.classes:
        capability |= _limits(one)
    without = [one for one in queue.classes if not one.quota]
    comments = [f"For {queue.whose}."]
    comments += [f"No limit of {one.name}: {_why_not(one)}." for one in without]
    if queue.namespace is None and queue.has_tenants:
        comments.append("Limits are of one namespace: no namespace is known that the policy selects.")
    spec = {"capability": capability} if capability else {}
    body = {"apiVersion": _API, "kind": "Queue", "metadata": {"name": queue.name}, "spec": spec}
    return Document(tuple(comments), body)


def _limits(one: QueuedClass) -> Mapping[str, str]:
    if not one.quota:
        return {}
    limits = {f"deviceclass/{one.name}": str(one.quota)}
    return limits | {f"{name}.deviceclass/{one.name}": amount for name, amount in _at_most(one, one.quota)}


def _at_most(one: QueuedClass, devices: int) -> Iterator[tuple[str, str]]:
    """What the claims for so many devices may ask for together."""
    allow = one.policy.spec.tenants.allow
    is_shared = one.sharing in {Sharing.TIME_SLICING, Sharing.MPS}
    if is_shared:
        yield "shares", str(devices * one.most_shares)
    yield "memory", f"{devices * _MORE_THAN_A_GPU_HAS}Gi"
    if one.sharing is Sharing.MPS:
        yield "threads", str(devices * (allow.max_threads or 100))


def _why_not(one: QueuedClass) -> str:
    policy = one.policy.metadata.name
    said = "is 0, which Volcano takes for no limit" if one.quota == 0 else "is not set"
    return f"{one.quota_field} of policy {policy} {said}"


def _findings(classes: Iterator[QueuedClass]) -> Iterator[Finding]:
    for one in classes:
        if one.quota == 0:
            yield ZERO_IS_NO_LIMIT.found(one.about(), quota_field=one.quota_field, policy=one.policy.metadata.name)
