"""GPUs of every model that the simulation knows, as an agent finds them."""

from typing import Any, Final

from building import gpu
from gpusharing.core.devices.gpu import Gpu, MigSupport
from gpusharing.forecasting.boards import mig_profile
from gpusharing.sim.models import MODELS

ALL: Final = tuple(MODELS)
MIG_CAPABLE: Final = tuple(name for name, model in MODELS.items() if model.mig_capable)


def board(model: str, slot: int = 0, **changes: Any) -> Gpu:
    found = MODELS[model]
    support = MigSupport(
        profiles=tuple(mig_profile(table) for table in found.mig_profiles),
        switch_resets_gpu=found.mig_mode_needs_reset,
    )
    facts = {
        "product_name": found.product_name,
        "architecture": found.architecture.name.title(),
        "memory_mib": found.memory_mib,
        "compute_capability": found.compute_capability,
        "mig": support if found.mig_capable else None,
    }
    return gpu(slot, **(facts | changes))


def most_instances(model: str) -> dict[int, int]:
    """How many instances of a profile NVIDIA's tables allow at the same time, by the profile's id."""
    return {table.shape.id: table.shape.max_instances for table in MODELS[model].mig_profiles}


def profile_names(gpu: Gpu) -> tuple[str, ...]:
    return tuple(profile.name for profile in gpu.mig.profiles) if gpu.mig else ()
