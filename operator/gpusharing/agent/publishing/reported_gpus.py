"""What an agent that has lost the record of a GPU finds out about it from its NodeSharing: beside the slot, the MIG
mode to restore. All else follows from the operator's decisions and the slices."""

import structlog

from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.state.records import Records
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_status import NodeSharingStatus

log = structlog.get_logger(__name__)


async def recover_gpus(records: Records, gpus: NodeGpus, reported: NodeSharingStatus) -> None:
    for gpu in reported.gpus:
        if gpus.is_here(gpu.uuid) and records.has_lost_gpu(gpu.uuid):
            found = _mig_mode_found(gpu, gpus)
            log.warning("GPU record recovered", uuid=gpu.uuid, slot=gpu.slot, mig_mode_found=found)
            await records.recover_gpu(gpu.uuid, mig_mode_found=found)


def _mig_mode_found(gpu: GpuStatus, gpus: NodeGpus) -> bool | None:
    """None: the agent had not switched it for longer than until a reboot, or somebody has switched it back since."""
    before, now, mig = gpu.mig_mode, gpus.mig_mode(gpu.uuid), gpus.published(gpu.uuid).gpu.mig
    if before is None or now is None or mig is None or not mig.switch_resets_gpu:
        return None
    was_switched = before.enabled != before.found and now.enabled == before.enabled
    return before.found if was_switched else None
