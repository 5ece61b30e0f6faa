"""Events that go with the write of a node's spec: a claim is denied, its device drains, its pods are evicted.

They are recorded once the spec is written. Those of what was written before were recorded then: a restart repeats none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from gpusharing.api.sharing.node_spec import GpuSharing, NodeSharingSpec, Verdict
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.claims import allocation
from gpusharing.core.events import pods
from gpusharing.core.intents import RecordEvent, Target
from gpusharing.core.policies.is_offered import is_offered
from gpusharing.core.state.node_view import GpuView, Hold, NodeView

EVICT: Final = "Evict"
"""The action of an Event."""


def notices(view: NodeView, spec: NodeSharingSpec, policies: Mapping[str, SharingPolicy]) -> tuple[RecordEvent, ...]:
    """`spec` is what is to be written."""
    if spec == view.sharing.spec:
        return ()
    return (*_denied(view, spec, policies), *_draining(view, spec))


def _denied(
    view: NodeView,
    spec: NodeSharingSpec,
    policies: Mapping[str, SharingPolicy],
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
            on_claim = RecordEvent(
                target=Target.RESOURCE_CLAIM,
                about=claim.metadata,
                warning=True,
                reason="ClaimDenied",
                action="Deny",
                note=reason,
                occurrence=f"{view.name} {entry.uid} {entry.allocation_hash}",
            )
            yield from pods.with_pods(on_claim, pods.users(claim))
            winners = {gpu.policy.name for gpu in spec.gpus if gpu.policy and _is_on(entry.uid, gpu)}
            for name in sorted((allocation.policies_of(claim, view.driver) | winners) & policies.keys()):
                about, note = policies[name].metadata, f"claim {entry.claim}: {reason}"
                yield replace(on_claim, target=Target.SHARING_POLICY, about=about, note=note)


def _is_on(uid: str, gpu: GpuSharing) -> bool:
    return any(device.claim == uid for device in gpu.allocated)


def _draining(view: NodeView, spec: NodeSharingSpec) -> Iterator[RecordEvent]:
    before = {gpu.uuid: gpu for gpu in view.sharing.spec.gpus}
    for after in spec.gpus:
        gpu, last = view.gpus.get(after.uuid), before.get(after.uuid)
        if gpu is not None and last is not None and _facts(last) != _facts(after):
            for hold in gpu.holds:
                yield from _change(hold, gpu, last, after)


def _facts(gpu: GpuSharing) -> object:
    return gpu.offers, gpu.policy and gpu.policy.name, gpu.restricted, gpu.drain


def _change(hold: Hold, gpu: GpuView, before: GpuSharing, after: GpuSharing) -> Iterator[RecordEvent]:
    if is_offered(hold.place, after, gpu.status, gpu.models):
        return
    by = f"SharingPolicy {after.policy.name}" if after.policy else "any SharingPolicy"
    no_longer = f"device {hold.place} is no longer offered by {by}"
    if after.drain and not before.drain:
        action, note = EVICT, f"{no_longer}; pods using it are being evicted"
    elif is_offered(hold.place, before, gpu.status, gpu.models):
        action = "Drain"
        note = (
            f"{no_longer}: its claims keep it, and it is not allocated to new claims; the change takes effect when "
            "the last claim releases it"
        )
    else:
        return
    on_claim = RecordEvent(
        target=Target.RESOURCE_CLAIM,
        about=hold.claim.metadata,
        warning=action == EVICT,
        reason="DeviceDraining",
        action=action,
        note=note,
        occurrence=f"{action} {hold.place} {_version(before)} {_version(after)}",
        policy=after.policy or before.policy,
    )
    yield from pods.with_pods(on_claim, pods.users(hold.claim))


def _version(gpu: GpuSharing) -> str:
    return f"{gpu.policy.name}/{gpu.policy.generation}" if gpu.policy else "none"
