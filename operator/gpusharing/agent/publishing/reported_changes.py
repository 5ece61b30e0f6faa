"""What the agent has changed on GPUs, as its NodeSharing says it: by it, an agent that has lost files restores GPUs."""

import structlog

from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.state.models import GpuJournal, GpuSettings, MadeInstance
from gpusharing.agent.state.records import Records
from gpusharing.api.sharing.gpu_status import FoundSettings, GpuStatus
from gpusharing.api.sharing.node_status import NodeSharingStatus

log = structlog.get_logger(__name__)


def found_settings(journal: GpuJournal) -> FoundSettings | None:
    before = journal.settings
    return FoundSettings(time_slice=before.time_slice, compute_mode=before.compute_mode) if before else None


def made_instances(journal: GpuJournal) -> tuple[str, ...]:
    return tuple(sorted(made.uuid for made in journal.instances if made.uuid))


def recover_changes(records: Records, gpus: NodeGpus, reported: NodeSharingStatus) -> bool:
    """Only of GPUs whose files were lost: otherwise these say more. Whether instances are known as the agent's now."""
    is_this_boot = reported.boot_id == records.boot.id
    are_known = False
    for gpu in reported.gpus:
        if not gpus.is_here(gpu.uuid) or not records.has_lost_changes(gpu.uuid):
            continue
        # A reboot has set everything back but the MIG mode of GPUs that keep it.
        journal = _journal(gpu, gpus) if is_this_boot else GpuJournal()
        found = _mig_mode_found(gpu, gpus) if _keeps_mig_mode(gpu, gpus) else None
        if records.recover_changes(gpu.uuid, journal, mig_mode_found=found):
            log.info("GPU changes recovered", uuid=gpu.uuid, journal=journal.to_json())
            are_known = True
    return are_known


def _journal(gpu: GpuStatus, gpus: NodeGpus) -> GpuJournal:
    settings = None
    if gpu.found:
        settings = GpuSettings(time_slice=gpu.found.time_slice, compute_mode=gpu.found.compute_mode)
    made = tuple(
        MadeInstance(profile_id=one.place.profile_id, start=one.place.start, uuid=one.uuid)
        for one in gpus.instances(gpu.uuid)
        if one.uuid in gpu.made_instances
    )
    mig_mode = None if _keeps_mig_mode(gpu, gpus) else _mig_mode_found(gpu, gpus)
    return GpuJournal(settings=settings, mig_mode=mig_mode, instances=made)


def _mig_mode_found(gpu: GpuStatus, gpus: NodeGpus) -> bool | None:
    """None: the agent had not switched it, or somebody else has since."""
    reported, now = gpu.mig_mode, gpus.mig_mode(gpu.uuid)
    was_switched = reported and now and reported.enabled != reported.found and now.enabled == reported.enabled
    return reported.found if reported and was_switched else None


def _keeps_mig_mode(gpu: GpuStatus, gpus: NodeGpus) -> bool:
    """Over a reboot."""
    mig = gpus.published(gpu.uuid).gpu.mig
    return mig is not None and mig.switch_resets_gpu
