"""Events on claims that a policy keeps waiting, whatever becomes free, and on their pods.

What the scheduler says of them (it cannot find a device) is true of a full cluster as well. Only claims for classes of
policies are looked at, since of others nobody knows whose GPUs they mean. What is not certain is not said: while a
change comes into force node by node, some GPUs are still had as before.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from gpusharing.api import names
from gpusharing.api.dra import DeviceClass, Namespace, ResourceClaim
from gpusharing.api.meta import ConditionStatus, LabelSelector
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.policy_status import SharingPolicyStatus
from gpusharing.core.cluster.device_classes import of_way
from gpusharing.core.events import pods
from gpusharing.core.intents import RecordEvent, Target
from gpusharing.core.policies.policy import Candidate
from gpusharing.core.verdicts.tenancy import in_words


class _Why(NamedTuple):
    reason: str
    note: str
    occurrence: str


def classes_of(claim: ResourceClaim) -> set[str]:
    """The device classes that it waits for; none once it was allocated."""
    if claim.status.allocation is not None or claim.metadata.deletion_timestamp is not None:
        return set()
    requests = claim.spec.devices.requests
    wishes = [wish for request in requests for wish in (request.exactly, *request.first_available) if wish]
    return {wish.device_class_name for wish in wishes}


def waiting_notices(
    waiting: Mapping[str, Iterable[ResourceClaim]],
    *,
    classes: Mapping[str, DeviceClass],
    candidates: Mapping[str, Candidate],
    statuses: Mapping[str, SharingPolicyStatus],
    namespaces: Mapping[str, Namespace],
) -> list[RecordEvent]:
    """Those that hold now: who records them remembers which were recorded.

    `waiting` is by class, `candidates` and `statuses` are of policies.
    """
    events: dict[tuple[str, str, str], RecordEvent] = {}
    for name in sorted(waiting.keys() & classes.keys()):
        policy = _policy_of(classes[name])
        candidate, status = candidates.get(policy or ""), statuses.get(policy or "")
        if candidate is None or status is None:
            continue
        for_all = _why_nobody_is_served(name, candidate, status)
        strangers = {} if for_all else _strangers(name, candidate, status, namespaces, waiting[name])
        for claim in waiting[name] if for_all or strangers else ():
            why = for_all or strangers.get(claim.metadata.namespace)
            for event in _events(claim, why) if why else ():
                events[event.about.uid, event.reason, event.occurrence] = event
    return [events[key] for key in sorted(events)]


def _policy_of(device_class: DeviceClass) -> str | None:
    owners = device_class.metadata.owner_references
    return next((owner["name"] for owner in owners if owner.get("kind") == Target.SHARING_POLICY), None)


def _why_nobody_is_served(name: str, candidate: Candidate, status: SharingPolicyStatus) -> _Why | None:
    meant = _meant(name, candidate)
    ready = next((condition for condition in status.conditions if condition.type == "Ready"), None)
    if status.gpus is not None and not status.gpus.won and ready and ready.status is ConditionStatus.FALSE:
        # Its message has counts.
        note = f"{meant}, which has none ({ready.reason}): its condition Ready says what to do"
        return _Why("PolicyHasNoGpus", note, f"{name} {ready.reason}")
    way = next((way for way in Sharing if names.policy_class(candidate.name, way) == name), None)
    if way and _is_wholly_in_force(candidate, status) and of_way(candidate.policy.spec.offers, way) is None:
        note = (
            f"device class {name} requests {way} on GPUs of SharingPolicy {candidate.name}, which does not offer {way}"
        )
        return _Why("WayNotOffered", f"{note}; use one of the modes in spec.offers", name)
    return None


def _strangers(
    name: str,
    candidate: Candidate,
    status: SharingPolicyStatus,
    namespaces: Mapping[str, Namespace],
    claims: Iterable[ResourceClaim],
) -> Mapping[str, _Why]:
    """Why they are not served, by namespace: they were made when it was a tenant, or went around the guards."""
    tenants = candidate.policy.spec.tenants.namespaces
    if tenants == LabelSelector() or not _is_wholly_in_force(candidate, status):
        return {}
    described = f"is not one of its tenants (spec.tenants.namespaces: {in_words(tenants)})"
    return {
        namespace: _Why("NotATenant", f"{_meant(name, candidate)}, and namespace {namespace} {described}", name)
        for namespace in {claim.metadata.namespace for claim in claims}
        if namespace in namespaces and not tenants.matches(namespaces[namespace].metadata.labels)
    }


def _meant(name: str, candidate: Candidate) -> str:
    return f"device class {name} is for GPUs of SharingPolicy {candidate.name}"


def _is_wholly_in_force(candidate: Candidate, status: SharingPolicyStatus) -> bool:
    """As it is now, on each of its nodes."""
    ready = next((condition for condition in status.conditions if condition.type == "Ready"), None)
    is_of_now = status.observed_generation == candidate.policy.metadata.generation
    return not candidate.rests and is_of_now and ready is not None and ready.status is ConditionStatus.TRUE


def _events(claim: ResourceClaim, why: _Why) -> Iterator[RecordEvent]:
    """On the claim, and on the pod for which it was made from a template."""
    on_claim = RecordEvent(
        target=Target.RESOURCE_CLAIM,
        about=claim.metadata,
        warning=True,
        reason=why.reason,
        action="Wait",
        note=why.note,
        occurrence=why.occurrence,
    )
    yield on_claim
    for pod in pods.owners(claim):
        yield replace(on_claim, target=Target.POD, about=pod)
