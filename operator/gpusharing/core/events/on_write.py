"""What people are told where they look first: that a claim is denied, that its device drains, that its pods are to go.

It is told with the write that makes it so. What was written before was told before, so nothing is told twice, and
nobody has to remember anything.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import ObjectMeta
from gpusharing.api.sharing.node_spec import GpuSharing, NodeSharingSpec, Verdict
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.claims import allocation
from gpusharing.core.intents import Target, Tell
from gpusharing.core.policies.is_offered import is_offered
from gpusharing.core.state.node_view import GpuView, Hold, NodeView

_PODS: Final = 8
"""Of a claim, at most; it may have hundreds."""


def notices(view: NodeView, spec: NodeSharingSpec, policies: Mapping[str, SharingPolicy]) -> tuple[Tell, ...]:
    """`spec` is what is to be written."""
    if spec == view.sharing.spec:
        return ()
    return (*_denied(view, spec, policies), *_draining(view, spec))


def _denied(
    view: NodeView,
    spec: NodeSharingSpec,
    policies: Mapping[str, SharingPolicy],
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
            yield from _to_its_people(claim, "ClaimDenied", "Judge", reason, warning=True)
            winners = {gpu.policy.name for gpu in spec.gpus if gpu.policy and _is_on(entry.uid, gpu)}
            for name in sorted((allocation.policies_of(claim, view.driver) | winners) & policies.keys()):
                yield Tell(
                    target=Target.SHARING_POLICY,
                    about=policies[name].metadata,
                    warning=True,
                    reason="ClaimDenied",
                    action="Judge",
                    note=f"claim {entry.claim}: {reason}",
                )


def _is_on(uid: str, gpu: GpuSharing) -> bool:
    return any(device.claim == uid for device in gpu.allocated)


def _draining(view: NodeView, spec: NodeSharingSpec) -> Iterator[Tell]:
    before = {gpu.uuid: gpu for gpu in view.sharing.spec.gpus}
    for after in spec.gpus:
        gpu, last = view.gpus.get(after.uuid), before.get(after.uuid)
        if gpu is not None and last is not None and _facts(last) != _facts(after):
            for hold in gpu.holds:
                yield from _change(hold, gpu, last, after)


def _facts(gpu: GpuSharing) -> object:
    return gpu.offers, gpu.policy and gpu.policy.name, gpu.restricted, gpu.drain


def _change(hold: Hold, gpu: GpuView, before: GpuSharing, after: GpuSharing) -> Iterator[Tell]:
    if is_offered(hold.place, after, gpu.status, gpu.models):
        return
    why = f"by SharingPolicy {after.policy.name}" if after.policy else "by any SharingPolicy"
    if after.drain and not before.drain:
        note = f"device {hold.place} is not offered any more {why}, which has the pods evicted that hold it"
        yield from _to_its_people(hold.claim, "DeviceDraining", "Evict", note, warning=True)
    elif is_offered(hold.place, before, gpu.status, gpu.models):
        note = (
            f"device {hold.place} is not offered any more {why}: it stays with those who hold it, nobody new gets it, "
            "and what is offered changes when the last of them has gone"
        )
        yield from _to_its_people(hold.claim, "DeviceDraining", "Drain", note, warning=False)


def _to_its_people(claim: ResourceClaim, reason: str, action: str, note: str, *, warning: bool) -> Iterator[Tell]:
    pods = [
        ObjectMeta(name=consumer.name, namespace=claim.metadata.namespace, uid=consumer.uid)
        for consumer in claim.status.reserved_for
        if consumer.resource == "pods"
    ]
    told = [(Target.RESOURCE_CLAIM, claim.metadata), *((Target.POD, pod) for pod in pods[:_PODS])]
    for target, about in told:
        yield Tell(target=target, about=about, warning=warning, reason=reason, action=action, note=note)
