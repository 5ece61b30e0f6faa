"""What cannot be held at the same time. The scheduler knows; this is the last line of defence where it was too late."""

from collections.abc import Iterable, Sequence

from gpusharing.agent.records import PreparedClaim, PreparedDevice
from gpusharing.api import names
from gpusharing.api.dra import AllocationResult, ResourceClaim
from gpusharing.core.claims import allocation, settings
from gpusharing.core.devices.gpu import Gpu
from gpusharing.core.devices.options import can_be_held_together, of_device


def refuse_held(
    claim: ResourceClaim,
    result: AllocationResult,
    gpu: Gpu,
    holders: Iterable[tuple[PreparedClaim, PreparedDevice]],
    own: Sequence[PreparedDevice],
) -> None:
    """A GPU is held in one way. `holders` are the others that have this GPU, `own` what the claim has so far."""
    held = [(other.display_name, device) for other, device in holders]
    held += [(allocation.display_name(claim), device) for device in own if device.uuid == gpu.uuid]
    for holder, device in held:
        if not _go_together(gpu, result.device, device.device):
            raise settings.SettingsError(
                f"request {result.request}: GPU {gpu.uuid} (device {result.device}) is held by claim {holder} as "
                f"{device.device}: delete this pod, so that it is scheduled again"
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


def _go_together(gpu: Gpu, mine: str, theirs: str) -> bool:
    """Whether two claims may hold these devices of one GPU."""
    sharing = names.sharing_of_device(mine)
    if sharing is not names.sharing_of_device(theirs):
        return False
    if sharing is names.Sharing.MIG:
        return can_be_held_together(gpu, [of_device(gpu, mine), of_device(gpu, theirs)])
    return sharing is not names.Sharing.EXCLUSIVE
