"""What each claim of a node gets, and where that comes from: the operator's half of the answer.

What an allocation was promised holds: once it was allowed, or is prepared, no change of a policy denies it, and what
cannot be resolved any more stays as it was. That is known by the entry that was written last for the same allocation,
and by what the agent has prepared. Only who holds a GPU beside somebody else may still have to give way
(`gpusharing.core.conflicts`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpusharing.api import names
from gpusharing.api.dra import AllocationConfig, AllocationResult, ResourceClaim
from gpusharing.api.sharing import UNTOLD, ClaimSharing, DeviceSettings, GpuSharing, MemoryWallSupport, Offers, Verdict
from gpusharing.core import allocation, offers, settings, tenancy
from gpusharing.core.conflicts import Loss
from gpusharing.core.departure import how_to_leave
from gpusharing.core.prepared import running
from gpusharing.core.tenancy import Held, Registry
from gpusharing.core.world import NodeView

_NOTHING: Final = GpuSharing(uuid="")


@dataclass(frozen=True, slots=True)
class _Promise:
    """What became of an allocation before."""

    holds: bool
    """Whether it was allowed, or is prepared."""
    settings: Mapping[tuple[str, str], DeviceSettings]
    """By request and device."""


def claim_entries(
    view: NodeView, gpus: Iterable[GpuSharing], registry: Registry, lost: Mapping[str, Loss], driver: str
) -> tuple[ClaimSharing, ...]:
    """`lost`: by their uids, claims that have to give way to others. There is no entry while nothing can be said."""
    decided = _by_slot(view, gpus)
    walls = {status.slot: status.memory_wall for status in view.sharing.status.gpus}
    promises = _Promises(view, driver)
    entries: list[ClaimSharing] = []
    for claim in view.claims:
        uid, digest = claim.metadata.uid, allocation.digest(claim, driver)
        held = [
            Held(result, decided.get(names.slot_of_device(result.device), _NOTHING))
            for result in allocation.results_on(claim, view.name, driver)
        ]
        promise = promises.to(uid, digest)
        try:
            problems = [] if promise.holds else _objections(claim, held, registry)
        except tenancy.UnknownNamespaceError:
            continue
        resolved: list[DeviceSettings] = []
        for one in held:
            try:
                resolved += _settings(one, allocation.configs(claim, driver), promise, walls)
            except settings.SettingsError as error:
                problems.append(str(error))
        problems += [lost[uid].reason] if uid in lost else []
        entries.append(
            ClaimSharing(
                uid=uid,
                claim=allocation.display_name(claim),
                allocation_hash=digest,
                verdict=Verdict.DENIED if problems else Verdict.ALLOWED,
                reason="; ".join(problems) or None,
                settings=tuple(resolved),
            )
        )
    return tuple(sorted(entries, key=lambda entry: entry.uid))


def _by_slot(view: NodeView, gpus: Iterable[GpuSharing]) -> Mapping[int | None, GpuSharing]:
    decided = {gpu.uuid: gpu for gpu in gpus}
    return {status.slot: decided[status.uuid] for status in view.sharing.status.gpus if status.uuid in decided}


class _Promises:
    def __init__(self, view: NodeView, driver: str) -> None:
        prepared = running(view, driver)
        self._applied = {status.uid: status.settings for status in view.sharing.status.claims if status.uid in prepared}
        self._told = {(entry.uid, entry.allocation_hash): entry for entry in view.sharing.spec.claims}

    def to(self, uid: str, digest: str) -> _Promise:
        applied, told = self._applied.get(uid), self._told.get((uid, digest))
        return _Promise(
            applied is not None or (told is not None and told.verdict is Verdict.ALLOWED),
            {(one.request, one.device): one for one in [*(applied or ()), *(told.settings if told else ())]},
        )


def _objections(claim: ResourceClaim, held: Sequence[Held], registry: Registry) -> list[str]:
    found = tenancy.objections(claim, held, registry)
    # Those who write claims and those who write policies are not the same people: this is for the former.
    return [*found, how_to_leave(claim)] if found else []


def _settings(
    held: Held,
    configs: Sequence[AllocationConfig],
    promise: _Promise,
    walls: Mapping[int, MemoryWallSupport],
) -> Iterable[DeviceSettings]:
    result, gpu = held.result, held.gpu
    kept = promise.settings.get((result.request, result.device))
    if result.admin_access:
        # Whoever looks changes nothing.
        return [DeviceSettings(request=result.request, device=result.device)]
    if _is_leaving(result, gpu):
        # The policy went on while the claim stayed: it keeps what it was given.
        return [kept] if kept else []
    wall = walls.get(names.slot_of_device(result.device) or 0, UNTOLD)
    try:
        offered = gpu.offers or offers.AS_FOUND
        return [settings.resolve(result, configs, offered, gpu.policy, allow=gpu.allow, memory_wall=wall)]
    except settings.SettingsError:
        if promise.holds:
            return [kept] if kept else []
        raise


def _is_leaving(result: AllocationResult, gpu: GpuSharing) -> bool:
    """Whether it is a share of a GPU that is not shared in this way any more, or only in another pool."""
    in_force = gpu.offers or Offers()
    match names.sharing_of_device(result.device):
        case names.Sharing.TIME_SLICING:
            is_offered = in_force.time_slicing is not None
        case names.Sharing.MPS:
            is_offered = in_force.mps is not None
        case _:
            return False
    restricted_to = gpu.policy.name if gpu.restricted and gpu.policy else None
    return not is_offered or names.policy_of_pool(result.pool) != restricted_to
