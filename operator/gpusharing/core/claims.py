"""What each claim of a node gets, and where that comes from: the operator's half of the answer, for people to read."""

from collections.abc import Mapping
from typing import Final

from gpusharing.api import names
from gpusharing.api.dra import AllocationResult, ResourceClaim
from gpusharing.api.sharing import ClaimSharing, DeviceSettings, GpuSharing, Verdict
from gpusharing.core import allocation, offers, settings
from gpusharing.core.world import NodeView

_NOTHING: Final = GpuSharing(uuid="")


def claim_entries(view: NodeView, gpus: tuple[GpuSharing, ...], driver: str) -> tuple[ClaimSharing, ...]:
    by_slot = _by_slot(view, gpus)
    before = {entry.uid: entry for entry in view.sharing.spec.claims}
    entries = (_entry(claim, by_slot, before.get(claim.metadata.uid), view.name, driver) for claim in view.claims)
    return tuple(sorted(entries, key=lambda entry: entry.uid))


def _by_slot(view: NodeView, gpus: tuple[GpuSharing, ...]) -> Mapping[int, GpuSharing]:
    decided = {gpu.uuid: gpu for gpu in gpus}
    return {status.slot: decided[status.uuid] for status in view.sharing.status.gpus if status.uuid in decided}


def _entry(
    claim: ResourceClaim, by_slot: Mapping[int, GpuSharing], before: ClaimSharing | None, node: str, driver: str
) -> ClaimSharing:
    digest = allocation.digest(claim, driver)
    resolved: list[DeviceSettings] = []
    problems: list[str] = []
    still_valid = before.settings if before and before.allocation_hash == digest else ()
    known = {(entry.request, entry.device): entry for entry in still_valid}
    configs = allocation.configs(claim, driver)
    for result in allocation.results(claim, driver):
        if result.pool != node:
            continue
        slot = names.slot_of_device(result.device)
        gpu = by_slot.get(slot, _NOTHING) if slot is not None else _NOTHING
        if _is_leaving(result, gpu):
            # The policy went on while the claim stayed: it keeps what it was given.
            kept = known.get((result.request, result.device))
            resolved += [kept] if kept else []
            continue
        try:
            resolved.append(settings.resolve(result, configs, gpu.offers or offers.AS_FOUND, gpu.policy))
        except settings.SettingsError as error:
            problems.append(str(error))
    return ClaimSharing(
        uid=claim.metadata.uid,
        claim=allocation.display_name(claim),
        allocation_hash=digest,
        verdict=Verdict.DENIED if problems else Verdict.ALLOWED,
        reason="; ".join(problems) or None,
        settings=tuple(resolved),
    )


def _is_leaving(result: AllocationResult, gpu: GpuSharing) -> bool:
    shared = names.sharing_of_device(result.device) is names.Sharing.TIME_SLICING
    return shared and (gpu.offers is None or gpu.offers.time_slicing is None)
