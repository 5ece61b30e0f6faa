"""What the agent says about its node: the status of its NodeSharing."""

from gpusharing.agent.gpus import NodeGpus
from gpusharing.agent.hardware.errors import HardwareError
from gpusharing.agent.records import GpuSettings, PreparedClaim, Records
from gpusharing.agent.settling.settler import Settler
from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.sharing import (
    ClaimStatus,
    GpuStatus,
    MigInstanceStatus,
    NodeSharing,
    NodeSharingStatus,
    PublishedDevice,
)
from gpusharing.core import offers
from gpusharing.core.inventory import Gpu, MigInstance
from gpusharing.core.offers import Entry, OfferedGpu
from gpusharing.kube.clock import as_moment


async def node_status(
    sharing: NodeSharing, *, gpus: NodeGpus, records: Records, settler: Settler, now: str
) -> NodeSharingStatus:
    offered = [gpus.published(uuid) for uuid in gpus.uuids]
    statuses = tuple([await _gpu_status(gpu, gpus, settler) for gpu in offered])
    problems = [problem for gpu in offered if (problem := settler.problem(gpu.gpu.uuid))]
    return NodeSharingStatus(
        observed_generation=sharing.metadata.generation,
        boot_id=records.boot_id,
        gpus=statuses,
        claims=tuple(_claim_status(claim) for _, claim in sorted(records.claims.items())),
        conditions=(_ready(sharing, problems, now=now),),
    )


async def _gpu_status(offered: OfferedGpu, gpus: NodeGpus, settler: Settler) -> GpuStatus:
    try:
        current = await settler.current(offered.gpu.uuid)
    except HardwareError:
        # The settler keeps what is wrong. What does not need the setting works all the same, and must be known of.
        current = GpuSettings()
    return GpuStatus(
        uuid=offered.gpu.uuid,
        slot=offered.gpu.slot,
        minor=offered.gpu.minor,
        model=offered.gpu.product_name,
        memory=f"{offered.gpu.memory_mib}Mi",
        mig_profiles=tuple(profile.name for profile in offered.gpu.mig.profiles) if offered.gpu.mig else (),
        instances=tuple(_instance(offered.gpu, instance) for instance in gpus.instances(offered.gpu.uuid)),
        attributes=offers.board_attributes(offered.gpu),
        policy=offered.policy,
        time_slice=current.time_slice,
        compute_mode=current.compute_mode,
        memory_wall=offered.memory_wall,
        published=tuple(_published(entry) for entry in gpus.entries(offered.gpu.uuid)),
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


def _ready(sharing: NodeSharing, problems: list[str], *, now: str) -> Condition:
    status = ConditionStatus.FALSE if problems else ConditionStatus.TRUE
    before = next((condition for condition in sharing.status.conditions if condition.type == "Ready"), None)
    return Condition(
        type="Ready",
        status=status,
        reason="HardwareDisobeys" if problems else "Ready",
        message="; ".join(problems),
        last_transition_time=before.last_transition_time if before and before.status == status else now,
    )
