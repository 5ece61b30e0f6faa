"""One GPU: who holds it, and what they were promised."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gpusharing.api.names import DeviceName, Sharing
from gpusharing.api.sharing.gpu_status import HEALTHY
from gpusharing.api.sharing.offers import Offers
from gpusharing.core.claims import share_ratio
from gpusharing.core.claims.share_ratio import Capacities, Promise
from gpusharing.core.devices.gpu import Divisible, MigSupport
from gpusharing.core.devices.reported_models import Reported
from gpusharing.core.publishing import capacities
from gpusharing.core.publishing.possible_modes import modes_while_idle
from gpusharing.core.quantities import mebibytes
from gpusharing.occupancy.fleet import GpuUse, Holder
from gpusharing.occupancy.sharing import Gpu, GpuReport
from gpusharing.occupancy.usage import Measured, Usage

_NOT_MEASURED: Final = Measured()


class Part(NamedTuple):
    """A device that a claim holds."""

    device: str
    name: DeviceName
    consumed: Mapping[str, str]
    uid: str
    namespace: str = ""
    claim: str = ""
    """Empty: the caller may not know its name."""
    pods: tuple[str, ...] = ()


def gpu_use(
    node: str,
    report: GpuReport,
    parts: Sequence[Part],
    *,
    decided: Gpu | None,
    mig: MigSupport | None,
    usage: Usage,
) -> GpuUse:
    gpu = _divisible(report, mig)
    offers = decided.offers if decided else None
    possible = _possible_modes(node, report, decided, mig)
    ordered = sorted(parts, key=lambda one: (one.device, one.namespace, one.claim, one.uid))
    promises = _promises(gpu, offers, ordered)
    holders = [
        _holder(part, promise, report, mig, usage.claims.get((part.uid, part.device), _NOT_MEASURED))
        for part, promise in zip(ordered, promises, strict=True)
    ]
    modes = tuple(mode for mode in Sharing if any(one.mode is mode for one in holders))
    ratios = [one.ratio for one in holders]
    measured, together = usage.gpus.get(report.uuid, _NOT_MEASURED), _together(holders)
    return GpuUse(
        node=node,
        slot=report.slot,
        uuid=report.uuid,
        model=report.model,
        memory=gpu.usable_mib,
        policy=report.policy.name if report.policy else None,
        restricted=bool(decided and decided.restricted),
        offers=possible,
        modes=modes,
        shares_taken=sum(one.shares for one in holders),
        shares_total=_shares(modes or possible or (), offers, mig, is_idle=not modes),
        ratio=None if None in ratios else float(sum(one for one in ratios if one is not None)),
        memory_promised=sum(one.memory_promised or 0 for one in holders),
        memory_used=together.memory if measured.memory is None else measured.memory,
        utilization=together.utilization if measured.utilization is None else measured.utilization,
        health=_health(report),
        holders=tuple(one for one in holders if one.claim),
        hidden_claims=tuple(dict.fromkeys(one.uid for one in ordered if not one.claim)),
    )


def _divisible(report: GpuReport, mig: MigSupport | None) -> Reported:
    total = _mebibytes(report.memory)
    usable = _mebibytes(report.usable_memory) if report.usable_memory else total
    return Reported(memory_mib=total, mig=mig, reserved_mib=total - usable)


def _mebibytes(amount: str) -> int:
    try:
        return mebibytes(amount)
    except ValueError:
        return 0


def _promises(gpu: Divisible, offers: Offers | None, parts: Sequence[Part]) -> Sequence[Promise]:
    shared = {one.device: one.name.sharing for one in parts}
    published = {device: _capacities(gpu, offers, mode) for device, mode in shared.items()}
    return share_ratio.promises(gpu, [share_ratio.Held(one.device, one.consumed) for one in parts], published)


def _capacities(gpu: Divisible, offers: Offers | None, mode: Sharing) -> Capacities:
    """As the device is published."""
    if offers and mode is Sharing.TIME_SLICING and offers.time_slicing:
        return capacities.time_sliced(gpu, offers.time_slicing)
    return capacities.mps(gpu, offers.mps) if offers and mode is Sharing.MPS and offers.mps else {}


def _holder(part: Part, promise: Promise, report: GpuReport, mig: MigSupport | None, usage: Measured) -> Holder:
    # Of the shares of a GPU that its agent does not report, nobody knows how many there are.
    is_known = report.uuid or part.name.sharing is Sharing.EXCLUSIVE
    profile = mig.profile(part.name.place.profile_id) if mig and part.name.place else None
    return Holder(
        namespace=part.namespace,
        claim=part.claim,
        uid=part.uid,
        pods=part.pods,
        device=part.device,
        mode=part.name.sharing,
        profile=profile.name if profile else "",
        shares=profile.slices if profile else int(share_ratio.amount(part.consumed.get("shares"))) or 1,
        ratio=float(promise.ratio) if is_known else None,
        memory_promised=promise.memory_mib or None,
        memory_used=usage.memory,
        utilization=usage.utilization,
    )


def _together(holders: Sequence[Holder]) -> Measured:
    """Where one is not measured, nobody knows what they use together."""
    used = [one.memory_used for one in holders]
    busy = [one.utilization for one in holders]
    return Measured(
        memory=sum(one or 0 for one in used) if used and None not in used else None,
        utilization=min(sum(one or 0 for one in busy), 1.0) if busy and None not in busy else None,
    )


def _possible_modes(
    node: str, report: GpuReport, decided: Gpu | None, mig: MigSupport | None
) -> tuple[Sharing, ...] | None:
    if decided is None or decided.offers is None:
        return None
    return modes_while_idle(node, report, decided, decided.offers, mig, is_unhealthy=bool(_health(report)))


def _total(mode: Sharing, offers: Offers | None, mig: MigSupport | None) -> int | None:
    """How many shares a GPU has in this mode."""
    match mode:
        case Sharing.EXCLUSIVE:
            return 1
        case Sharing.TIME_SLICING:
            return offers.time_slicing.max_clients if offers and offers.time_slicing else None
        case Sharing.MPS:
            return offers.mps.max_clients if offers and offers.mps else None
        case Sharing.MIG:
            return max((one.slices for one in mig.profiles), default=None) if mig else None


def _shares(modes: Sequence[Sharing], offers: Offers | None, mig: MigSupport | None, *, is_idle: bool) -> int | None:
    """Of a GPU that is idle, those of the mode that has most. Nobody adds up those of several modes."""
    if not is_idle:
        return _total(modes[0], offers, mig) if len(modes) == 1 else None
    return max((_total(mode, offers, mig) or 1 for mode in modes), default=1)


def _health(report: GpuReport) -> str:
    found = next((one for one in report.conditions if one.type == HEALTHY), None)
    return found.reason if found is not None and found.status == "False" else ""
