"""What people are told where they look first: that a claim is denied, that its device drains, that its pods are to go.

It is told with the write that makes it so. What was written before was told before, so nothing is told twice, and
nobody has to remember anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gpusharing.api import names
from gpusharing.api.dra import AllocationResult, ResourceClaim
from gpusharing.api.meta import ObjectMeta
from gpusharing.api.sharing.node_spec import GpuSharing, NodeSharingSpec, Verdict
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.claims import allocation
from gpusharing.core.intents import Target, Tell
from gpusharing.core.state.node_view import NodeView, policies_of

_PODS: Final = 8
"""Of a claim, at most; it may have hundreds."""


def notices(
    view: NodeView, spec: NodeSharingSpec, policies: Mapping[str, SharingPolicy], driver: str
) -> tuple[Tell, ...]:
    """`spec` is what is to be written."""
    if spec == view.sharing.spec:
        return ()
    return (*_denied(view, spec, policies, driver), *_draining(view, spec, driver))


def _denied(
    view: NodeView,
    spec: NodeSharingSpec,
    policies: Mapping[str, SharingPolicy],
    driver: str,
) -> Iterator[Tell]:
    denied = [entry for entry in spec.claims if entry.verdict is Verdict.DENIED]
    if not denied:
        return
    claims = {claim.metadata.uid: claim for claim in view.claims}
    known = {
        (entry.uid, entry.allocation_hash) for entry in view.sharing.spec.claims if entry.verdict is Verdict.DENIED
    }
    for entry in denied:
        if (entry.uid, entry.allocation_hash) not in known:
            claim, reason = claims[entry.uid], entry.reason or ""
            yield from _to_its_people(claim, "ClaimDenied", "Deny", reason, warning=True)
            winners = {gpu.policy.name for gpu in spec.gpus if gpu.policy and _is_on(entry.uid, gpu)}
            for name in sorted((policies_of(claim, driver) | winners) & policies.keys()):
                yield Tell(
                    target=Target.SHARING_POLICY,
                    about=policies[name].metadata,
                    warning=True,
                    reason="ClaimDenied",
                    action="Deny",
                    note=f"claim {entry.claim}: {reason}",
                )


def _is_on(uid: str, gpu: GpuSharing) -> bool:
    return any(device.claim == uid for device in gpu.allocated)


def _draining(view: NodeView, spec: NodeSharingSpec, driver: str) -> Iterator[Tell]:
    before = {gpu.uuid: gpu for gpu in view.sharing.spec.gpus}
    slots = {status.uuid: status.slot for status in view.sharing.status.gpus}
    changed = {
        slots[gpu.uuid]: (before[gpu.uuid], gpu)
        for gpu in spec.gpus
        if gpu.uuid in slots and gpu.uuid in before and _way_of(before[gpu.uuid]) != _way_of(gpu)
    }
    for claim in view.claims if changed else ():
        for result in allocation.results_on(claim, view.name, driver):
            slot = names.slot_of_device(result.device)
            if slot in changed and not result.admin_access:
                yield from _change(claim, result, *changed[slot])


def _way_of(gpu: GpuSharing) -> object:
    return gpu.offers, gpu.policy and gpu.policy.name, gpu.restricted, gpu.drain


def _change(claim: ResourceClaim, result: AllocationResult, before: GpuSharing, after: GpuSharing) -> Iterator[Tell]:
    if _is_offered(result, after):
        return
    place = f"{result.pool}/{result.device}"
    why = f"by SharingPolicy {after.policy.name}" if after.policy else "by any SharingPolicy"
    if after.drain and not before.drain:
        note = f"device {place} is not offered any more {why}, which has the pods evicted that hold it"
        yield from _to_its_people(claim, "DeviceDraining", "Evict", note, warning=True)
    elif _is_offered(result, before):
        note = (
            f"device {place} is not offered any more {why}: it stays with those who hold it, nobody new gets it, and "
            "what is offered changes when the last of them has gone"
        )
        yield from _to_its_people(claim, "DeviceDraining", "Drain", note, warning=False)


def _is_offered(result: AllocationResult, gpu: GpuSharing) -> bool:
    restricted_to = gpu.policy.name if gpu.restricted and gpu.policy else None
    if names.policy_of_pool(result.pool) != restricted_to:
        return False
    offers, device = gpu.offers, names.read_device(result.device)
    if device is None:
        return False
    match device.sharing:
        case names.Sharing.EXCLUSIVE:
            return offers is None or offers.exclusive is not None
        case names.Sharing.TIME_SLICING:
            return offers is not None and offers.time_slicing is not None
        case names.Sharing.MPS:
            return offers is not None and offers.mps is not None
        case names.Sharing.MIG:
            # As it is found, a GPU may be cut in any way.
            profiles: Iterable[str] = (offers.mig.profiles or offers.mig.layout or ()) if offers and offers.mig else ()
            return offers is None or any(
                device.place and names.mig_device(device.slot, profile, device.place) == result.device
                for profile in profiles
            )


def _to_its_people(claim: ResourceClaim, reason: str, action: str, note: str, *, warning: bool) -> Iterator[Tell]:
    pods = [
        ObjectMeta(name=consumer.name, namespace=claim.metadata.namespace, uid=consumer.uid)
        for consumer in claim.status.reserved_for
        if consumer.resource == "pods"
    ]
    told = [(Target.RESOURCE_CLAIM, claim.metadata), *((Target.POD, pod) for pod in pods[:_PODS])]
    for target, about in told:
        yield Tell(target=target, about=about, warning=warning, reason=reason, action=action, note=note)
