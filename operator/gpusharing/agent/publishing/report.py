"""What the agent says about its node: the status of its NodeSharing."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpusharing.agent.health.conditions import (
    HELD,
    READY,
    STATE_TRUSTED,
    HeldReason,
    ReadyReason,
    TrustReason,
    condition,
    healthy,
    messages,
)
from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.health.unallocated import UnallocatedClaims
from gpusharing.agent.problems import Problem
from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.state.models import GpuJournal, GpuSettings, PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.api.meta import Condition, Conditions
from gpusharing.api.sharing.gpu_status import GpuStatus, MigInstanceStatus, PublishedDevice, Reason
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_status import ClaimStatus, NodeSharingStatus
from gpusharing.api.sharing.offers import Interval
from gpusharing.core.devices import reported_models
from gpusharing.core.devices.gpu import Gpu, MigInstance
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing.attributes import board_attributes
from gpusharing.core.publishing.entries import Entry
from gpusharing.core.publishing.gpu_health import Effect, Finding
from gpusharing.core.text import listed
from gpusharing.kube.clock import as_precise_moment


class Described(NamedTuple):
    status: NodeSharingStatus
    """Without its conditions."""
    problems: tuple[Finding, ...] = ()
    """That keep the node from being ready."""


def describe_node(
    sharing: NodeSharing,
    *,
    observed_generation: int | None,
    gpus: NodeGpus,
    records: Records,
    settler: Settler,
    health: NodeHealth,
    now: str,
) -> Described:
    """`observed_generation`: of the last spec that was put in force."""
    before = {gpu.uuid: gpu for gpu in sharing.status.gpus}
    statuses: list[GpuStatus] = []
    problems: list[Finding] = []
    for uuid in gpus.uuids:
        settings = GpuSettings() if uuid in health.lost else settler.known(uuid) or _reported(before.get(uuid))
        found = health.findings(uuid)
        conditions = before[uuid].conditions if uuid in before else ()
        well = healthy(found, conditions, now=now)
        problems += [_named(uuid, finding) for finding in found if _keeps_from_ready(finding)]
        held = _held(uuid, health.unallocated, conditions, now=now)
        statuses.append(_gpu_status(gpus.published(uuid), gpus, settings, (well, *held)))
    status = NodeSharingStatus(
        observed_generation=observed_generation,
        boot_id=records.boot.id,
        models=reported_models.described(gpus.published(uuid).gpu for uuid in gpus.uuids),
        gpus=tuple(statuses),
        claims=_claim_statuses(sharing, records),
    )
    return Described(status, tuple(problems))


def with_conditions(
    sharing: NodeSharing, described: Described, problems: Sequence[Problem], records: Records, *, now: str
) -> NodeSharingStatus:
    """`problems` are the agent's own, the heaviest first."""
    status = described.status
    conditions = (
        _ready(sharing, described.problems, problems, now=now),
        _trusted(sharing, records, status.gpus, now=now),
    )
    return status.model_copy(update={"conditions": conditions})


def _reported(gpu: GpuStatus | None) -> GpuSettings:
    return GpuSettings(time_slice=gpu.time_slice, compute_mode=gpu.compute_mode) if gpu else GpuSettings()


def _gpu_status(offered: OfferedGpu, gpus: NodeGpus, settings: GpuSettings, conditions: Conditions) -> GpuStatus:
    return GpuStatus(
        uuid=offered.gpu.uuid,
        slot=offered.gpu.slot,
        minor=offered.gpu.minor,
        model=offered.gpu.product_name,
        memory=f"{offered.gpu.memory_mib}Mi",
        usable_memory=f"{offered.gpu.usable_mib}Mi",
        mig_profiles=tuple(profile.name for profile in offered.gpu.mig.profiles) if offered.gpu.mig else (),
        instances=tuple(_instance(offered.gpu, instance) for instance in gpus.instances(offered.gpu.uuid)),
        mig_mode=gpus.mig_mode(offered.gpu.uuid),
        attributes=board_attributes(offered.gpu),
        policy=offered.policy,
        time_slice=settings.time_slice,
        compute_mode=settings.compute_mode,
        memory_wall=offered.memory_wall,
        pool=gpus.pool(offered.gpu.uuid),
        published=tuple(_published(entry) for entry in gpus.entries(offered.gpu.uuid)),
        conditions=conditions,
    )


def _held(uuid: str, unallocated: UnallocatedClaims, before: Iterable[Condition], *, now: str) -> tuple[Condition, ...]:
    """Only while it is so."""
    holders = unallocated.on(uuid)
    if not holders:
        return ()
    claims = "; ".join(
        f"claim {claim.display_name} has device {device.device}, but is not allocated any more: delete the pods that "
        f"use it ({', '.join(claim.users) or 'unknown'})"
        for claim, device in holders
    )
    return (condition(HELD, reason=HeldReason.NOT_ALLOCATED, message=claims, before=before, now=now),)


def _published(entry: Entry) -> PublishedDevice:
    since = entry.closing_since
    return PublishedDevice(device=entry.device, closing_since=None if since is None else as_precise_moment(since))


def _instance(gpu: Gpu, instance: MigInstance) -> MigInstanceStatus:
    profile = gpu.mig.profile(instance.place.profile_id) if gpu.mig else None
    name = profile.name if profile else f"profile {instance.place.profile_id}"
    return MigInstanceStatus(profile=name, start=instance.place.start, uuid=instance.uuid)


def _claim_statuses(sharing: NodeSharing, records: Records) -> tuple[ClaimStatus, ...]:
    """Of hundreds of claims a few have changed since the last report."""
    before = {claim.uid: claim for claim in sharing.status.claims}
    return tuple(
        known if (known := before.get(uid)) and _is_as_reported(claim, known) else _claim_status(claim)
        for uid, claim in sorted(records.all_claims.items())
    )


def _is_as_reported(claim: PreparedClaim, known: ClaimStatus) -> bool:
    return known.claim == claim.display_name and known.settings == tuple(device.settings for device in claim.devices)


def _claim_status(claim: PreparedClaim) -> ClaimStatus:
    return ClaimStatus(
        uid=claim.uid, claim=claim.display_name, settings=tuple(device.settings for device in claim.devices)
    )


def _ready(sharing: NodeSharing, of_gpus: Sequence[Finding], own: Sequence[Problem], *, now: str) -> Condition:
    withheld = any(finding.effect is not Effect.NONE for finding in of_gpus)
    of_gpus_reason = ReadyReason.GPU_UNHEALTHY if withheld else ReadyReason.SETTING_NOT_APPLIED
    reason = of_gpus_reason if of_gpus else ReadyReason.READY
    return condition(
        READY,
        # What keeps the agent from its work may be why the rest is not as it should be.
        reason=own[0].reason if own else reason,
        message="; ".join(filter(None, (*(problem.message for problem in own), messages(of_gpus)))),
        before=sharing.status.conditions,
        now=now,
    )


def _trusted(sharing: NodeSharing, records: Records, gpus: Sequence[GpuStatus], *, now: str) -> Condition:
    reason, message = TrustReason.TRUSTED, ""
    if files := ", ".join(map(str, records.put_aside)):
        reason = TrustReason.FILES_PUT_ASIDE
        message = (
            f"damaged or written by a newer agent, and put aside: {files}; what they said is found out again where "
            "that is possible, but not what a GPU was set to before: look at the GPU of this name, then delete the file"
        )
    elif records.lost_state:
        unknown = [one for gpu in gpus if (one := _unexplained(gpu, records.journal(gpu.uuid)))]
        reason = TrustReason.STATE_LOST
        message = (
            "the state directory was empty when the agent started, and what it had was recovered: find out who emptied "
            "it, then restart the agent"
        )
        if unknown:
            message += (
                f". Nobody knows who changed these GPUs: {listed(unknown)}: if no pod needs it, restore them or reboot "
                "the node"
            )
    return condition(
        STATE_TRUSTED,
        reason=reason,
        message=message,
        before=sharing.status.conditions,
        now=now,
    )


def _unexplained(gpu: GpuStatus, journal: GpuJournal) -> str:
    """How it differs from a GPU that nobody has set, and is not known to be restored."""
    settings = [
        *([f"time slice {gpu.time_slice}"] if gpu.time_slice not in {None, Interval.DEFAULT} else []),
        *([f"compute mode {gpu.compute_mode}"] if gpu.compute_mode not in {None, "Default"} else []),
    ]
    mig = ["MIG mode"] if gpu.mig_mode and gpu.mig_mode.enabled and gpu.mig_mode.found else []
    differences = ([] if journal.settings else settings) + mig
    return f"gpu-{gpu.slot}: {', '.join(differences)}" if differences else ""


def _keeps_from_ready(finding: Finding) -> bool:
    """What is not as it should be, too, although nobody is kept from the GPU by it."""
    return finding.effect is not Effect.NONE or finding.reason is Reason.SETTING_NOT_APPLIED


def _named(uuid: str, finding: Finding) -> Finding:
    return finding if uuid in finding.message else replace(finding, message=f"GPU {uuid}: {finding.message}")
