"""How one GPU is cut."""

import pynvml

from gpusharing.agent.hardware.errors import NotSupportedError
from gpusharing.agent.hardware.facts import MigState
from gpusharing.agent.hardware.nvml import boards, instances, mig_mode, mig_profiles
from gpusharing.agent.hardware.nvml.session import Device


def read(gpu: Device) -> MigState | None:
    try:
        mode = mig_mode.read(gpu)
    except NotSupportedError:
        return None
    profiles = {profile.id: profile for profile in mig_profiles.read(gpu)}
    return MigState(
        mode=mode,
        switch_resets_gpu=boards.mig_switch_resets(gpu.ask(pynvml.nvmlDeviceGetArchitecture, gpu.handle)),
        instances=tuple(instances.read(gpu, profiles)) if mode.current else (),
    )
