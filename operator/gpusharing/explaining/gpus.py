"""`explain gpu` and `explain node`: what a GPU offers, who uses it, and what is wrong with it."""

from collections.abc import Sequence
from typing import Final

from gpusharing.api import names
from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.sharing.gpu_status import HEALTHY, GpuStatus
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import GpuSharing, RefusalReason
from gpusharing.core.devices.reported_models import reported
from gpusharing.core.publishing.possible_modes import is_mig_enabled, modes_while_idle, needs_reset
from gpusharing.core.reasons import AcceptedReason, DegradedReason
from gpusharing.explaining import wording
from gpusharing.explaining.explanation import Explanation, Table, worst
from gpusharing.explaining.scene import Scene
from gpusharing.findings import gpus
from gpusharing.findings.finding import Finding, Reference

_READY: Final = "Ready"
_OF_NODE: Final = ("GPU", "MODEL", "POLICY", "OFFERS", "IN USE AS", "CLAIMS", "HEALTH")
_OF_GPU: Final = ("DEVICE", "STATE", "CLAIMS")
_LOSERS: Final = ("POLICY", "RESULT", "REASON")


def explain_node(name: str, sharing: NodeSharing | None, scene: Scene, *, is_ready: bool = True) -> Explanation:
    about = Reference("Node", name)
    findings = [] if is_ready else [gpus.NODE_NOT_READY.found(about, node=name)]
    if sharing is None:
        findings.append(gpus.NO_AGENT.found(about, node=name))
        headline = f"Node {name} has no agent."
        return Explanation(object=about, state=worst(findings), headline=headline, findings=findings)
    findings += _of_agent(sharing, about)
    decided = {gpu.uuid: gpu for gpu in sharing.spec.gpus}
    for status in sharing.status.gpus:
        findings += _of_gpu(status, decided.get(status.uuid), sharing, about)
    rows = [_node_row(status, decided.get(status.uuid), sharing, scene) for status in sharing.status.gpus]
    count = len(sharing.status.gpus)
    in_use = sum(bool(gpu.allocated) for gpu in sharing.spec.gpus)
    headline = f"Node {name} has {count} GPU{'' if count == 1 else 's'}, {in_use} in use."
    tables = [Table("gpus", _OF_NODE, rows)] if rows else []
    return Explanation(object=about, state=worst(findings), headline=headline, findings=findings, tables=tables)


def explain_gpu(status: GpuStatus, sharing: NodeSharing, scene: Scene) -> Explanation:
    about = Reference("GPU", f"{sharing.metadata.name}/gpu-{status.slot}")
    gpu = next((one for one in sharing.spec.gpus if one.uuid == status.uuid), None)
    findings = [*_of_agent(sharing, about), *_of_gpu(status, gpu, sharing, about)]
    mode = in_use_as(gpu)
    use = f"is in use in mode {mode}" if mode else "is idle"
    headline = f"GPU {about.name} ({status.model}, {status.memory}, {status.uuid}) {use}."
    tables = [Table("devices", _OF_GPU, _devices(status, gpu, sharing, scene))]
    if gpu:
        ranked = [(gpu.policy.name, "won", "-")] if gpu.policy else []
        ranked += [(one.policy, "lost", one.reason.value) for one in gpu.losers]
        tables += [Table("policies", _LOSERS, ranked)] if ranked else []
    return Explanation(object=about, state=worst(findings), headline=headline, findings=findings, tables=tables)


def find(name: str, node_sharings: Sequence[NodeSharing]) -> list[tuple[GpuStatus, NodeSharing]]:
    """By uuid, or as NODE/gpu-N."""
    return [
        (status, sharing)
        for sharing in node_sharings
        for status in sharing.status.gpus
        if name in {status.uuid, f"{sharing.metadata.name}/gpu-{status.slot}"}
    ]


def named(sharing: NodeSharing, uids: Sequence[str], scene: Scene, namespace: str = "") -> tuple[list[str], int]:
    """Claims by name, and the number of those whose names the caller may not know."""
    known = {one.uid: one.claim for one in sharing.status.claims}
    known |= {one.uid: one.claim for one in sharing.spec.claims}
    shown = [
        known[uid]
        for uid in uids
        if uid in known and (scene.sees_all_claims or known[uid].startswith(f"{_own(scene, namespace)}/"))
    ]
    return shown, len(uids) - len(shown)


def _own(scene: Scene, namespace: str) -> str:
    return scene.world.only_namespace.get("claims") or namespace


def in_use_as(gpu: GpuSharing | None) -> str:
    modes = {names.sharing_of_device(one.device) for one in gpu.allocated} if gpu else set()
    return ", ".join(sorted(mode.value for mode in modes if mode))


def health(status: GpuStatus, node: str, about: Reference) -> list[Finding]:
    return [
        gpus.UNHEALTHY.found(
            about, gpu=f"gpu-{status.slot}", node=node, reason=one.reason, message=one.message or "no details"
        )
        for one in status.conditions
        if one.type == HEALTHY and one.status is ConditionStatus.FALSE
    ]


def _of_agent(sharing: NodeSharing, about: Reference) -> list[Finding]:
    ready = _condition(sharing.status.conditions, _READY)
    if ready is None or ready.status is ConditionStatus.TRUE:
        return []
    return [gpus.AGENT_NOT_READY.found(about, node=sharing.metadata.name, reason=ready.reason, message=ready.message)]


def _of_gpu(status: GpuStatus, gpu: GpuSharing | None, sharing: NodeSharing, about: Reference) -> list[Finding]:
    name = f"gpu-{status.slot}"
    found = health(status, sharing.metadata.name, about)
    if gpu is None:
        return [*found, gpus.NOT_CONFIGURED.found(about, gpu=name)]
    if needs_reset_for_mig(status, gpu, sharing):
        found.append(gpus.MIG_NEEDS_RESET.found(about, gpus=name))
    if gpu.policy is None:
        found.append(gpus.NO_POLICY.found(about, gpu=name))
    policy = gpu.policy.name if gpu.policy else ""
    has_mig = reported(status, sharing.status.models).mig is not None
    found += [
        gpus.OFFER_REFUSED.found(
            about,
            gpu=name,
            mode=one.sharing.value,
            reason=one.reason.value,
            message=one.message,
            remedy=refusal_remedy(one.reason, policy, has_mig=has_mig),
        )
        for one in gpu.refused
    ]
    found += [
        gpus.CLOSING.found(about, device=one.device, since=f" since {one.closing_since}")
        for one in status.published
        if one.closing_since
    ]
    return found


def refusal_remedy(reason: RefusalReason, policy: str, *, has_mig: bool) -> str:
    if reason is RefusalReason.UNKNOWN_MIG_PROFILE and not has_mig:
        return f"Leave mig out of the offers of SharingPolicy {policy} for such GPUs."
    if reason is RefusalReason.INTERNAL_ERROR:
        return AcceptedReason.INTERNAL_ERROR.remedy
    # A refusal degrades the policy for the same reason.
    return DegradedReason(reason.value).remedy


def _node_row(status: GpuStatus, gpu: GpuSharing | None, sharing: NodeSharing, scene: Scene) -> tuple[str, ...]:
    policy = gpu.policy.name if gpu and gpu.policy else "-"
    uids = list(dict.fromkeys(one.claim for one in gpu.allocated)) if gpu else []
    healthy = _condition(status.conditions, HEALTHY)
    state = healthy.reason if healthy and _is_unhealthy(status) else "ok"
    claims = _claims(sharing, uids, scene)
    return (
        f"gpu-{status.slot}",
        status.model,
        policy,
        _offers(status, gpu, sharing),
        in_use_as(gpu) or "-",
        claims,
        state,
    )


def _offers(status: GpuStatus, gpu: GpuSharing | None, sharing: NodeSharing) -> str:
    if gpu is None or gpu.offers is None:
        return "as found"
    mig = reported(status, sharing.status.models).mig
    modes = modes_while_idle(sharing.metadata.name, status, gpu, gpu.offers, mig, is_unhealthy=_is_unhealthy(status))
    return ", ".join(modes) or "-"


def needs_reset_for_mig(status: GpuStatus, gpu: GpuSharing, sharing: NodeSharing) -> bool:
    if gpu.offers is None:
        return False
    mig = reported(status, sharing.status.models).mig
    return needs_reset(gpu.offers, mig, mig_enabled=is_mig_enabled(status))


def _is_unhealthy(status: GpuStatus) -> bool:
    return any(one.type == HEALTHY and one.status is ConditionStatus.FALSE for one in status.conditions)


def _devices(
    status: GpuStatus, gpu: GpuSharing | None, sharing: NodeSharing, scene: Scene
) -> Sequence[tuple[str, ...]]:
    users: dict[str, list[str]] = {}
    for one in gpu.allocated if gpu else ():
        users.setdefault(one.device, []).append(one.claim)
    published = {one.device: "closing" if one.closing_since else "published" for one in status.published}
    return [
        (device, published.get(device, "not published"), _claims(sharing, users.get(device, []), scene))
        for device in sorted({*published, *users})
    ]


def _claims(sharing: NodeSharing, uids: Sequence[str], scene: Scene) -> str:
    shown, hidden = named(sharing, uids, scene)
    text = wording.some(shown)
    if hidden:
        text += f"{' and ' if text else ''}{hidden} of other namespaces"
    return text or "-"


def _condition(conditions: Sequence[Condition], type_: str) -> Condition | None:
    return next((one for one in conditions if one.type == type_), None)
