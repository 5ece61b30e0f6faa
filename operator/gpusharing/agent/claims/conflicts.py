"""Devices that exclude each other. The scheduler knows; this is the last line of defence where it was too late."""

from collections import Counter
from collections.abc import Iterable, Sequence

from gpusharing.agent.health.unallocated import UnallocatedClaims
from gpusharing.agent.state.models import PreparedClaim, PreparedDevice
from gpusharing.api import names
from gpusharing.api.dra import AllocationResult
from gpusharing.core.claims import settings
from gpusharing.core.devices.gpu import Gpu
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.devices.options import exclude_each_other
from gpusharing.core.publishing import capacities
from gpusharing.core.quantities import exact
from gpusharing.core.text import listed


def refuse_held(
    result: AllocationResult,
    gpu: Gpu,
    holders: Iterable[tuple[PreparedClaim, PreparedDevice]],
    unallocated: UnallocatedClaims,
) -> None:
    """A GPU has one mode. `holders` are the other claims that have this GPU."""
    wanted = f"request {result.request}: GPU {gpu.uuid} (device {result.device})"
    # Many claims have the same device.
    excluded: dict[str, bool] = {}
    for holder, device in holders:
        if device.device not in excluded:
            excluded[device.device] = exclude_each_other(gpu, result.device, device.device)
        if not excluded[device.device]:
            continue
        if holder.uid in unallocated:
            users = ", ".join(holder.users) or "unknown"
            raise settings.SettingsError(
                f"{wanted} is prepared for claim {holder.display_name}, which is not allocated any more: delete the "
                f"pods that use it ({users}), or delete this pod, so that it is scheduled again"
            )
        # The scheduler does not give away what is allocated: somebody may have taken the allocation away.
        unallocated.suspect(holder.uid)
        raise settings.SettingsError(
            f"{wanted} is prepared for claim {holder.display_name} as {device.device}: delete this pod, so that it is "
            "scheduled again"
        )


def refuse_two_modes(result: AllocationResult, gpu: Gpu, own: Iterable[PreparedDevice]) -> None:
    """Neither within one claim. `own` are its devices so far."""
    for device in own:
        if device.uuid == gpu.uuid and exclude_each_other(gpu, result.device, device.device):
            raise settings.SettingsError(
                f"request {result.request}: device {result.device} cannot be used together with {device.device} of the "
                "same claim: delete this pod, so that it is scheduled again"
            )


def refuse_overcommitted(
    result: AllocationResult,
    offered: OfferedGpu,
    holders: Iterable[tuple[PreparedClaim, PreparedDevice]],
    own: Iterable[PreparedDevice],
) -> None:
    """The scheduler counts what claims of the API have. One that was deleted under its pod still has its share. `own`
    are the claim's devices so far."""
    sharing = names.sharing_of_device(result.device)
    # Also under former names.
    name = names.read_device(result.device)
    beside = [(claim, device) for claim, device in holders if names.read_device(device.device) == name]
    mine = [device for device in own if names.read_device(device.device) == name]
    for capacity, total in (capacities.totals(offered.gpu, offered.offers, sharing) if sharing else {}).items():
        least = "1" if capacity == "shares" else "0"
        wanted = exact(result.consumed_capacity.get(capacity, least))
        # Most of them have the same: adding up fractions takes longer than counting them.
        amounts = Counter(device.consumed.get(capacity, least) for device in (*mine, *(one for _, one in beside)))
        used = sum(exact(amount) * count for amount, count in amounts.items())
        if wanted > 0 and used + wanted > exact(total):
            claims = listed(sorted({claim.display_name for claim, _ in beside})) or "(none)"
            raise settings.SettingsError(
                f"request {result.request}: device {result.device} has {capacity} {total}, and less than "
                f"{result.consumed_capacity.get(capacity, least)} is left by prepared claims {claims}: delete pods "
                "whose claims are not there any more, or this pod, so that it is scheduled again"
            )


def refuse_two_daemons(devices: Sequence[PreparedDevice]) -> None:
    """A container finds MPS by one variable."""
    pipes = {device.mps_pipe for device in devices if device.mps_pipe}
    if len(pipes) > 1:
        named = ", ".join(device.device for device in devices if device.mps_pipe)
        raise settings.SettingsError(
            f"devices {named} are shared by MPS on different GPUs, and a container can use one MPS daemon: ask for "
            "them in claims of different containers"
        )
