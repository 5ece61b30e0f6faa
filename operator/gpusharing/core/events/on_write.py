"""Events that go with the write of a node's spec: a claim is denied, its device drains, its pods are evicted.

They are recorded once the spec is written. Those of what was written before were recorded then: a restart repeats none.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gpusharing.api import names
from gpusharing.api.dra import AllocationResult, ResourceClaim
from gpusharing.api.sharing.node_spec import GpuSharing, NodeSharingSpec, PolicyReference, Verdict
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.claims import allocation
from gpusharing.core.events import pods
from gpusharing.core.intents import RecordEvent, Target
from gpusharing.core.state.node_view import NodeView, policies_of


def notices(
    view: NodeView, spec: NodeSharingSpec, policies: Mapping[str, SharingPolicy], driver: str
) -> tuple[RecordEvent, ...]:
    """`spec` is what is to be written."""
    if spec == view.sharing.spec:
        return ()
    return (*_denied(view, spec, policies, driver), *_draining(view, spec, driver))


def _denied(
    view: NodeView,
    spec: NodeSharingSpec,
    policies: Mapping[str, SharingPolicy],
    driver: str,
) -> Iterator[RecordEvent]:
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
            occurrence = f"{entry.uid} {entry.allocation_hash}"
            yield from _on_claim(claim, "ClaimDenied", "Judge", reason, warning=True, occurrence=occurrence)
            winners = {gpu.policy.name for gpu in spec.gpus if gpu.policy and _is_on(entry.uid, gpu)}
            for name in sorted((policies_of(claim, driver) | winners) & policies.keys()):
                yield RecordEvent(
                    target=Target.SHARING_POLICY,
                    about=policies[name].metadata,
                    warning=True,
                    reason="ClaimDenied",
                    action="Judge",
                    note=f"claim {entry.claim}: {reason}",
                    occurrence=occurrence,
                )


def _is_on(uid: str, gpu: GpuSharing) -> bool:
    return any(device.claim == uid for device in gpu.allocated)


def _draining(view: NodeView, spec: NodeSharingSpec, driver: str) -> Iterator[RecordEvent]:
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


def _change(
    claim: ResourceClaim, result: AllocationResult, before: GpuSharing, after: GpuSharing
) -> Iterator[RecordEvent]:
    if _is_offered(result, after):
        return
    place = f"{result.pool}/{result.device}"
    by = f"SharingPolicy {after.policy.name}" if after.policy else "any SharingPolicy"
    if after.drain and not before.drain:
        action, note = "Evict", f"device {place} is no longer offered by {by}; pods using it are being evicted"
    elif _is_offered(result, before):
        action, note = (
            "Drain",
            (
                f"device {place} is no longer offered by {by}: current users keep it, no new claims are admitted; the "
                "change takes effect when the last user releases it"
            ),
        )
    else:
        return
    yield from _on_claim(
        claim,
        "DeviceDraining",
        action,
        note,
        warning=action == "Evict",
        occurrence=f"{action} {place} {_version(before)} {_version(after)}",
        policy=after.policy or before.policy,
    )


def _version(gpu: GpuSharing) -> str:
    return f"{gpu.policy.name}/{gpu.policy.generation}" if gpu.policy else "none"


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


def _on_claim(
    claim: ResourceClaim,
    reason: str,
    action: str,
    note: str,
    *,
    warning: bool,
    occurrence: str,
    policy: PolicyReference | None = None,
) -> Iterator[RecordEvent]:
    """And on its pods."""
    on_claim = RecordEvent(
        target=Target.RESOURCE_CLAIM,
        about=claim.metadata,
        warning=warning,
        reason=reason,
        action=action,
        note=note,
        occurrence=occurrence,
        policy=policy,
    )
    yield on_claim
    for pod in pods.users(claim):
        yield replace(on_claim, target=Target.POD, about=pod, policy=None)
