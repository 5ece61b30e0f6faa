"""Claims that nobody can serve because a policy has no GPUs: what they and their pods are told.

What the scheduler says of them (it cannot find a device) is true of a full cluster as well. Only claims for classes of
policies are looked at, since of others nobody knows whose GPUs they mean.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from gpusharing.api.dra import DeviceClass, ResourceClaim
from gpusharing.api.meta import ConditionStatus, ObjectMeta
from gpusharing.api.sharing.policy_status import SharingPolicyStatus
from gpusharing.core.intents import Target, Tell


def classes_of(claim: ResourceClaim) -> set[str]:
    """The device classes that it waits for; none once it was allocated."""
    if claim.status.allocation is not None or claim.metadata.deletion_timestamp is not None:
        return set()
    requests = claim.spec.devices.requests
    wishes = [wish for request in requests for wish in (request.exactly, *request.first_available) if wish]
    return {wish.device_class_name for wish in wishes}


def waiting_notices(
    waiting: Mapping[str, Iterable[ResourceClaim]],
    classes: Mapping[str, DeviceClass],
    statuses: Mapping[str, SharingPolicyStatus],
    told: Mapping[str, Collection[str]],
) -> list[Tell]:
    """`waiting` is by class, `statuses` are those of the policies, `told` by uid what was told already."""
    notices: dict[tuple[str, str], Tell] = {}
    for name in sorted(waiting.keys() & classes.keys()):
        policy = _policy_of(classes[name])
        why = _why_nobody_is_served(statuses.get(policy)) if policy else None
        if why is None:
            continue
        note = f"device class {name} is for GPUs of SharingPolicy {policy}, which has none: {why}"
        for claim in waiting[name]:
            for notice in _to(claim, note):
                if note not in told.get(notice.about.uid, ()):
                    notices[notice.about.uid, note] = notice
    return [notices[key] for key in sorted(notices)]


def _policy_of(device_class: DeviceClass) -> str | None:
    owners = device_class.metadata.owner_references
    return next((owner["name"] for owner in owners if owner.get("kind") == Target.SHARING_POLICY), None)


def _why_nobody_is_served(status: SharingPolicyStatus | None) -> str | None:
    if status is None or status.gpus is None or status.gpus.won:
        return None
    ready = next((condition for condition in status.conditions if condition.type == "Ready"), None)
    return f"{ready.reason}: {ready.message}" if ready and ready.status is ConditionStatus.FALSE else None


def _to(claim: ResourceClaim, note: str) -> Iterator[Tell]:
    """The claim, and the pod for which it was made from a template."""
    told = [(Target.RESOURCE_CLAIM, claim.metadata)]
    for owner in claim.metadata.owner_references:
        if owner.get("kind") == Target.POD:
            pod = ObjectMeta(name=owner["name"], namespace=claim.metadata.namespace, uid=owner["uid"])
            told.append((Target.POD, pod))
    for target, about in told:
        yield Tell(target=target, about=about, warning=True, reason="PolicyHasNoGpus", action="Wait", note=note)
