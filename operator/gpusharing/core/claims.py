"""What each claim of a node gets, and where that comes from: the operator's half of the answer, for people to read."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from gpusharing.api import names
from gpusharing.api.dra import AllocationResult, ResourceClaim
from gpusharing.api.sharing import UNTOLD, ClaimSharing, DeviceSettings, GpuSharing, MemoryWallSupport, Verdict
from gpusharing.core import allocation, offers, settings
from gpusharing.core.world import NodeView


class _Known(NamedTuple):
    """Of a GPU."""

    decided: GpuSharing
    memory_wall: MemoryWallSupport


_NOTHING: Final = _Known(GpuSharing(uuid=""), UNTOLD)


def claim_entries(view: NodeView, gpus: tuple[GpuSharing, ...], driver: str) -> tuple[ClaimSharing, ...]:
    by_slot = _by_slot(view, gpus)
    before = {entry.uid: entry for entry in view.sharing.spec.claims}
    entries = (_entry(claim, by_slot, before.get(claim.metadata.uid), view.name, driver) for claim in view.claims)
    return tuple(sorted(entries, key=lambda entry: entry.uid))


def _by_slot(view: NodeView, gpus: tuple[GpuSharing, ...]) -> Mapping[int, _Known]:
    decided = {gpu.uuid: gpu for gpu in gpus}
    return {
        status.slot: _Known(decided[status.uuid], status.memory_wall)
        for status in view.sharing.status.gpus
        if status.uuid in decided
    }


def _entry(
    claim: ResourceClaim, by_slot: Mapping[int, _Known], before: ClaimSharing | None, node: str, driver: str
) -> ClaimSharing:
    digest = allocation.digest(claim, driver)
    resolved: list[DeviceSettings] = []
    problems: list[str] = []
    still_valid = before.settings if before and before.allocation_hash == digest else ()
    known = {(entry.request, entry.device): entry for entry in still_valid}
    configs = allocation.configs(claim, driver)
    for result in allocation.results_on(claim, node, driver):
        slot = names.slot_of_device(result.device)
        gpu, memory_wall = by_slot.get(slot, _NOTHING) if slot is not None else _NOTHING
        kept = known.get((result.request, result.device))
        if _is_leaving(result, gpu):
            # The policy went on while the claim stayed: it keeps what it was given.
            resolved += [kept] if kept else []
            continue
        try:
            offered = gpu.offers or offers.AS_FOUND
            # What was allowed before the policy allowed less, stays allowed.
            allow = None if kept else gpu.allow
            resolved.append(
                settings.resolve(result, configs, offered, gpu.policy, allow=allow, memory_wall=memory_wall)
            )
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
