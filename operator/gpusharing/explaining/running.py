"""What a pod or a claim has: GPU, mode, limits, neighbours, and where each setting came from."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gpusharing.api import names
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import ClaimSharing, GpuSharing, Verdict
from gpusharing.explaining import gpus, lean, wording
from gpusharing.explaining.explanation import Explanation, State, Table, worst
from gpusharing.explaining.names_of_claims import names_of_claims
from gpusharing.explaining.scene import Scene
from gpusharing.findings import running
from gpusharing.findings.finding import Finding, Reference
from gpusharing.snapshots.world import Json

_FAILED: Final = frozenset({"FailedPrepareDynamicResources"})
_HEADER: Final = ("CLAIM", "NODE", "DEVICE", "GPU", "MODE", "LIMITS", "NEIGHBOURS", "POLICY")
_SETTINGS: Final = ("DEVICE", "SETTING", "VALUE", "FROM")


class Has(NamedTuple):
    """One device of a claim."""

    claim: str
    result: lean.Result
    node: str
    gpu: GpuSharing | None = None
    status: GpuStatus | None = None
    entry: ClaimSharing | None = None
    settings: DeviceSettings | None = None
    is_prepared: bool = False
    neighbours: str = ""


def explain_pod(pod: Json, about: Reference, scene: Scene) -> Explanation:
    claims = [
        claim for name in names_of_claims(pod) if (claim := scene.whole_claims.get((about.namespace, name))) is not None
    ]
    node = pod["spec"]["nodeName"]
    has = [one for claim in claims for one in _devices(claim, scene, node)]
    phase = (pod.get("status") or {}).get("phase", "Unknown")
    starts = phase != "Running"
    findings = [*_about_preparing(pod, node, scene, starts=starts), *_findings(has, about, starts=starts)]
    what = "runs" if not starts else "is starting"
    with_ = f" with {wording.devices(len(has))}" if has else ", without devices"
    state = worst(findings)
    if not starts:
        state = State.RUNS
    elif state is State.RUNS:
        state = State.WAITS
    headline = f"Pod {about.namespace}/{about.name} {what} on node {node}{with_}."
    return Explanation(object=about, state=state, headline=headline, findings=findings, tables=_tables(has, scene))


def explain_claim(claim: Json, about: Reference, scene: Scene) -> Explanation:
    has = _devices(claim, scene, _node_of(claim))
    users = [one["name"] for one in (claim.get("status") or {}).get("reservedFor") or ()]
    by = f", used by {wording.some(users)}" if users else ", used by nobody"
    findings = _findings(has, about, starts=True)
    headline = f"Claim {about.namespace}/{about.name} has {wording.devices(len(has))}{by}."
    state = worst(findings)
    return Explanation(object=about, state=state, headline=headline, findings=findings, tables=_tables(has, scene))


def _node_of(claim: Json) -> str:
    """The only node on which its devices can be used; empty if there are several."""
    terms = (claim["status"]["allocation"].get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
    fields = [field for term in terms for field in term.get("matchFields") or ()]
    return str(fields[0]["values"][0]) if len(terms) == len(fields) == 1 else ""


def _devices(claim: Json, scene: Scene, node: str) -> list[Has]:
    """`node`: where devices of other drivers are."""
    found = lean.Lean(lean.Claim).of_objects([claim])
    return [_device(found[0], one, scene, node) for one in found[0].results] if found else []


def _device(claim: lean.Claim, result: lean.Result, scene: Scene, elsewhere: str) -> Has:
    name = claim.metadata.name
    if result.driver != scene.driver:
        return Has(name, result, elsewhere)
    node = names.node_of_pool(result.pool)
    sharing = scene.node_sharing(node)
    if sharing is None:
        return Has(name, result, node)
    slot = names.slot_of_device(result.device)
    status = next((one for one in sharing.status.gpus if one.slot == slot), None)
    gpu = next((one for one in sharing.spec.gpus if status and one.uuid == status.uuid), None)
    uid = claim.metadata.uid
    entry = next((one for one in sharing.spec.claims if one.uid == uid), None)
    prepared = next((one for one in sharing.status.claims if one.uid == uid), None)
    settings = next(
        (one for source in (prepared, entry) if source for one in source.settings if one.device == result.device), None
    )
    return Has(
        name,
        result,
        node,
        gpu,
        status,
        entry,
        settings,
        is_prepared=prepared is not None,
        neighbours=_neighbours(sharing, gpu, uid, claim.metadata.namespace, scene),
    )


def _neighbours(sharing: NodeSharing, gpu: GpuSharing | None, uid: str, namespace: str, scene: Scene) -> str:
    """Other claims on the GPU: by name, or counted if they may not be read."""
    if gpu is None:
        return ""
    others = dict.fromkeys(one.claim for one in gpu.allocated if one.claim != uid)
    named, hidden = gpus.named(sharing, list(others), scene, namespace)
    parts = named[:3]
    rest = len(named) - len(parts) + hidden
    return ", ".join(parts) + (f"{' and ' if parts else ''}{rest} other{'s' if rest > 1 else ''}" if rest else "")


def _about_preparing(pod: Json, node: str, scene: Scene, *, starts: bool) -> list[Finding]:
    if not starts:
        return []
    about = Reference("Pod", pod["metadata"]["name"], pod["metadata"].get("namespace", ""))
    uid = pod["metadata"].get("uid")
    messages = [
        str(one.get("message") or one.get("note"))
        for one in scene.world.events
        if one.get("reason") in _FAILED and (one.get("involvedObject") or one.get("regarding") or {}).get("uid") == uid
    ]
    return [running.NOT_PREPARED.found(about, node=node, message=message) for message in messages[-1:]]


def _findings(has: Sequence[Has], about: Reference, *, starts: bool) -> list[Finding]:
    found: list[Finding] = []
    for one in has:
        if one.entry and one.entry.verdict is Verdict.DENIED:
            reason = one.entry.reason or "no reason given"
            found.append(running.DENIED.found(about, claim=one.claim, node=one.node, reason=reason))
        elif starts and one.status and not one.is_prepared:
            found.append(running.NOT_APPLIED.found(about, node=one.node, claim=one.claim))
        if one.settings:
            found += [
                running.SETTING_IGNORED.found(about, claim=one.claim, ignored=text) for text in one.settings.ignored
            ]
        is_shared = names.sharing_of_device(one.result.device) is names.Sharing.TIME_SLICING
        if is_shared and one.settings and one.settings.memory is None:
            found.append(running.NO_MEMORY_LIMIT.found(about, device=f"{one.node}/{one.result.device}"))
        if one.status:
            found += gpus.health(one.status, one.node, about)
    return found


def _tables(has: Sequence[Has], scene: Scene) -> list[Table]:
    rows = [_row(one, scene) for one in has]
    settings = [row for one in has if one.settings for row in _settings(one.result.device, one.settings)]
    tables = [Table("devices", _HEADER, rows)] if rows else []
    return tables + ([Table("settings", _SETTINGS, settings)] if settings else [])


def _row(one: Has, scene: Scene) -> tuple[str, ...]:
    sharing = names.sharing_of_device(one.result.device)
    policy = one.gpu.policy.name if one.gpu and one.gpu.policy else ""
    model = f"gpu-{one.status.slot} {one.status.model}" if one.status else ""
    mode = sharing.value if sharing and one.status else ""
    result = one.result
    # Others may have given the same name.
    device = result.device if result.driver == scene.driver else f"{result.driver}/{result.pool}/{result.device}"
    return (one.claim, one.node or "-", device, model, mode, _limits(one), one.neighbours or "-", policy or "-")


def _limits(one: Has) -> str:
    parts = [
        f"{name} {wording.quantity(amount)}" for name, amount in sorted((one.result.consumed_capacity or {}).items())
    ]
    return ", ".join(part for part in parts if not part.endswith(" 0")) or "-"


def _settings(device: str, settings: DeviceSettings) -> list[tuple[str, ...]]:
    sources = settings.sources
    rows: list[tuple[str, ...]] = []
    if settings.interval is not None:
        rows.append((device, "interval", settings.interval.value, (sources.interval if sources else None) or "-"))
    if settings.memory is not None:
        limit = f"{wording.mebibytes(settings.memory.limit)} ({settings.memory.enforcement.value})"
        rows.append((device, "memory limit", limit, (sources.memory if sources else None) or "-"))
    if settings.mps is not None:
        source = (sources.mps if sources else None) or "-"
        memory, threads = settings.mps.memory, settings.mps.threads
        rows += [(device, "MPS memory", wording.mebibytes(memory), source)] if memory is not None else []
        rows += [(device, "MPS threads", f"{threads}%", source)] if threads is not None else []
    return rows
