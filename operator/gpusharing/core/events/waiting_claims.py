"""Claims that a policy keeps waiting, whatever becomes free: what they and their pods are told.

What the scheduler says of them (it cannot find a device) is true of a full cluster as well. Only claims for classes of
policies are looked at, since of others nobody knows whose GPUs they mean. What is not certain is not said: while a
change comes into force node by node, some GPUs are still had as before.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from gpusharing.api import names
from gpusharing.api.dra import DeviceClass, Namespace, ResourceClaim
from gpusharing.api.meta import ConditionStatus, LabelSelector, ObjectMeta
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.policy_status import SharingPolicyStatus
from gpusharing.core.cluster.device_classes import of_way
from gpusharing.core.intents import Target, Tell
from gpusharing.core.policies.policy import Candidate
from gpusharing.core.verdicts.tenancy import in_words


class _Why(NamedTuple):
    reason: str
    note: str


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
    told: Mapping[str, Collection[str]],
) -> list[Tell]:
    """`waiting` is by class, `candidates` and `statuses` are of policies, `told` by uid what was told already."""
    notices: dict[tuple[str, str], Tell] = {}
    for name in sorted(waiting.keys() & classes.keys()):
        policy = _policy_of(classes[name])
        candidate, status = candidates.get(policy or ""), statuses.get(policy or "")
        if candidate is None or status is None:
            continue
        for_all = _why_nobody_is_served(name, candidate, status)
        strangers = {} if for_all else _strangers(name, candidate, status, namespaces, waiting[name])
        for claim in waiting[name] if for_all or strangers else ():
            why = for_all or strangers.get(claim.metadata.namespace)
            for notice in _to(claim, why) if why else ():
                if notice.note not in told.get(notice.about.uid, ()):
                    notices[notice.about.uid, notice.note] = notice
    return [notices[key] for key in sorted(notices)]


def _policy_of(device_class: DeviceClass) -> str | None:
    owners = device_class.metadata.owner_references
    return next((owner["name"] for owner in owners if owner.get("kind") == Target.SHARING_POLICY), None)


def _why_nobody_is_served(name: str, candidate: Candidate, status: SharingPolicyStatus) -> _Why | None:
    meant = _meant(name, candidate)
    ready = next((condition for condition in status.conditions if condition.type == "Ready"), None)
    if status.gpus is not None and not status.gpus.won and ready and ready.status is ConditionStatus.FALSE:
        return _Why("PolicyHasNoGpus", f"{meant}, which has none: {ready.reason}: {ready.message}")
    way = next((way for way in Sharing if names.policy_class(candidate.name, way) == name), None)
    if way and _is_wholly_in_force(candidate, status) and of_way(candidate.policy.spec.offers, way) is None:
        return _Why("ModeNotOffered", f"{meant} as {way}, which offers them in other ways (spec.offers): ask for these")
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
        namespace: _Why("NotATenant", f"{_meant(name, candidate)}, and namespace {namespace} {described}")
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


def _to(claim: ResourceClaim, why: _Why) -> Iterator[Tell]:
    """The claim, and the pod for which it was made from a template."""
    told = [(Target.RESOURCE_CLAIM, claim.metadata)]
    for owner in claim.metadata.owner_references:
        if owner.get("kind") == Target.POD:
            pod = ObjectMeta(name=owner["name"], namespace=claim.metadata.namespace, uid=owner["uid"])
            told.append((Target.POD, pod))
    for target, about in told:
        yield Tell(target=target, about=about, warning=True, reason=why.reason, action="Wait", note=why.note)
