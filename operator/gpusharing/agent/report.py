"""What the agent says about its node: the status of its NodeSharing."""

from dataclasses import replace

from gpusharing.agent.conditions import READY, STATE_TRUSTED, condition, healthy, messages
from gpusharing.agent.gpus import NodeGpus
from gpusharing.agent.hardware.errors import HardwareError
from gpusharing.agent.health import NodeHealth
from gpusharing.agent.records import GpuSettings, PreparedClaim, Records
from gpusharing.agent.settling.settler import Settler
from gpusharing.api.meta import Condition
from gpusharing.api.sharing.gpu_status import GpuStatus, MigInstanceStatus, PublishedDevice
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_status import ClaimStatus, NodeSharingStatus
from gpusharing.core.devices import reported_models
from gpusharing.core.devices.gpu import Gpu, MigInstance
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing.attributes import board_attributes
from gpusharing.core.publishing.entries import Entry
from gpusharing.core.publishing.gpu_health import Effect, Finding, Reason
from gpusharing.kube.clock import as_moment


async def node_status(
    sharing: NodeSharing, *, gpus: NodeGpus, records: Records, settler: Settler, health: NodeHealth, now: str
) -> NodeSharingStatus:
    before = {gpu.uuid: gpu.conditions for gpu in sharing.status.gpus}
    statuses: list[GpuStatus] = []
    problems: list[Finding] = []
    for uuid in gpus.uuids:
        settings = GpuSettings() if uuid in health.lost else await _settings(uuid, settler)
        found = health.findings(uuid)
        well = healthy(found, before.get(uuid, ()), now=now)
        problems += [_named(uuid, finding) for finding in found if _keeps_from_ready(finding)]
        statuses.append(_gpu_status(gpus.published(uuid), gpus, settings, well))
    return NodeSharingStatus(
        observed_generation=sharing.metadata.generation,
        boot_id=records.boot_id,
        models=reported_models.described(gpus.published(uuid).gpu for uuid in gpus.uuids),
        gpus=tuple(statuses),
        claims=tuple(_claim_status(claim) for _, claim in sorted(records.claims.items())),
        conditions=(_ready(sharing, problems, now=now), _trusted(sharing, records, now=now)),
    )


async def _settings(uuid: str, settler: Settler) -> GpuSettings:
    try:
        return await settler.current(uuid)
    except HardwareError:
        # The settler keeps what is wrong. What does not need the setting works all the same, and must be known of.
        return GpuSettings()


def _gpu_status(offered: OfferedGpu, gpus: NodeGpus, settings: GpuSettings, well: Condition) -> GpuStatus:
    return GpuStatus(
        uuid=offered.gpu.uuid,
        slot=offered.gpu.slot,
        minor=offered.gpu.minor,
        model=offered.gpu.product_name,
        memory=f"{offered.gpu.memory_mib}Mi",
        mig_profiles=tuple(profile.name for profile in offered.gpu.mig.profiles) if offered.gpu.mig else (),
        instances=tuple(_instance(offered.gpu, instance) for instance in gpus.instances(offered.gpu.uuid)),
        mig_mode=gpus.mig_mode(offered.gpu.uuid),
        attributes=board_attributes(offered.gpu),
        policy=offered.policy,
        time_slice=settings.time_slice,
        compute_mode=settings.compute_mode,
        memory_wall=offered.memory_wall,
        published=tuple(_published(entry) for entry in gpus.entries(offered.gpu.uuid)),
        conditions=(well,),
    )


def _published(entry: Entry) -> PublishedDevice:
    since = entry.closing_since
    return PublishedDevice(device=entry.device, closing_since=None if since is None else as_moment(since))


def _instance(gpu: Gpu, instance: MigInstance) -> MigInstanceStatus:
    profile = gpu.mig.profile(instance.place.profile_id) if gpu.mig else None
    name = profile.name if profile else f"profile {instance.place.profile_id}"
    return MigInstanceStatus(profile=name, start=instance.place.start, uuid=instance.uuid)


def _claim_status(claim: PreparedClaim) -> ClaimStatus:
    return ClaimStatus(
        uid=claim.uid, claim=claim.display_name, settings=tuple(device.settings for device in claim.devices)
    )


def _ready(sharing: NodeSharing, problems: list[Finding], *, now: str) -> Condition:
    withheld = any(finding.effect is not Effect.NONE for finding in problems)
    return condition(
        READY,
        is_so=not problems,
        reason="GpuUnhealthy" if withheld else Reason.DISOBEYS if problems else READY,
        message=messages(problems),
        before=sharing.status.conditions,
        now=now,
    )


def _trusted(sharing: NodeSharing, records: Records, *, now: str) -> Condition:
    files = ", ".join(map(str, records.put_aside))
    return condition(
        STATE_TRUSTED,
        is_so=not files,
        reason="FilesPutAside" if files else "Trusted",
        message=f"damaged and put aside: {files}; what they said is found out again where that is possible, but not "
        "what a GPU was set to before: look at the GPU of this name, then delete the file"
        if files
        else "",
        before=sharing.status.conditions,
        now=now,
    )


def _keeps_from_ready(finding: Finding) -> bool:
    """What is not as it should be, too, although nobody is kept from the GPU by it."""
    return finding.effect is not Effect.NONE or finding.reason is Reason.DISOBEYS


def _named(uuid: str, finding: Finding) -> Finding:
    return finding if uuid in finding.message else replace(finding, message=f"GPU {uuid}: {finding.message}")
