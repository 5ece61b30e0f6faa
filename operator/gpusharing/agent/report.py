"""What the agent says about its node: the status of its NodeSharing."""

from gpusharing.agent.gpus import NodeGpus
from gpusharing.agent.hardware.errors import HardwareError
from gpusharing.agent.records import GpuBefore, PreparedClaim, Records
from gpusharing.agent.tuning import Tuner
from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.sharing import (
    ClaimStatus,
    GpuStatus,
    NodeSharing,
    NodeSharingStatus,
    PublishedDevice,
)
from gpusharing.core import publication
from gpusharing.core.publication import OfferedGpu


async def node_status(
    sharing: NodeSharing, *, gpus: NodeGpus, records: Records, tuner: Tuner, now: str
) -> NodeSharingStatus:
    offered = [gpus.published(uuid) for uuid in gpus.uuids]
    statuses = tuple([await _gpu_status(gpu, tuner) for gpu in offered])
    problems = [problem for gpu in offered if (problem := tuner.problem(gpu.gpu.uuid))]
    return NodeSharingStatus(
        observed_generation=sharing.metadata.generation,
        boot_id=records.boot_id,
        gpus=statuses,
        claims=tuple(_claim_status(claim) for _, claim in sorted(records.claims.items())),
        conditions=(_ready(sharing, problems, now=now),),
    )


async def _gpu_status(offered: OfferedGpu, tuner: Tuner) -> GpuStatus:
    try:
        current = await tuner.current(offered.gpu.uuid)
    except HardwareError:
        # The tuner keeps what is wrong. What does not need the setting works all the same, and must be known of.
        current = GpuBefore()
    return GpuStatus(
        uuid=offered.gpu.uuid,
        slot=offered.gpu.slot,
        minor=offered.gpu.minor,
        model=offered.gpu.product_name,
        memory=f"{offered.gpu.memory_mib}Mi",
        attributes=publication.board_attributes(offered.gpu),
        policy=offered.policy,
        time_slice=current.time_slice,
        compute_mode=current.compute_mode,
        published=tuple(PublishedDevice(device=name) for name in publication.device_names(offered)),
    )


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
