"""Into what a GPU can be cut."""

import ctypes
from collections.abc import Iterator
from typing import Any, Final

import pynvml

from gpusharing.core.devices.gpu import Engines, MigProfile
from gpusharing.nvidia.errors import InvalidArgumentError, NotSupportedError
from gpusharing.nvidia.nvml.session import Device

# Some more than this binding knows, for drivers that are newer.
_KINDS: Final = range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT + 8)
# More than any GPU has; what the driver says of the number of its instances has been wrong (A30).
MOST_PLACEMENTS: Final = 32


def read(gpu: Device) -> tuple[MigProfile, ...]:
    known = gpu.session.mig_profiles
    # Old drivers tell none while MIG mode is off.
    if not known.get(gpu.uuid):
        known[gpu.uuid] = tuple(_profile(gpu, info) for info in _infos(gpu))
    return known[gpu.uuid]


def _infos(gpu: Device) -> Iterator[Any]:
    """Profiles are numbered twice: by their kind, for finding them, and by their id for all else."""
    for kind in _KINDS:
        try:
            yield gpu.ask(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, gpu.handle, kind)
        except NotSupportedError:
            continue
        except InvalidArgumentError:
            if kind == _KINDS.start:
                raise
            # There are no more kinds.
            return


def _profile(gpu: Device, info: Any) -> MigProfile:
    placements = _placements(gpu, info.id)
    return MigProfile(
        id=info.id,
        name=info.name,
        slices=info.sliceCount,
        memory_mib=info.memorySizeMB,
        engines=Engines(
            multiprocessors=info.multiprocessorCount,
            copy_engines=info.copyEngineCount,
            decoders=info.decoderCount,
            encoders=info.encoderCount,
            jpeg_engines=info.jpegCount,
            ofa_engines=info.ofaCount,
        ),
        size=placements[0].size if placements else 0,
        starts=tuple(sorted(placement.start for placement in placements)),
    )


def _placements(gpu: Device, profile_id: int) -> list[Any]:
    count = ctypes.c_uint(MOST_PLACEMENTS)
    places = (pynvml.c_nvmlGpuInstancePlacement_t * MOST_PLACEMENTS)()
    gpu.ask(pynvml.nvmlDeviceGetGpuInstancePossiblePlacements, gpu.handle, profile_id, places, ctypes.byref(count))
    return list(places[: count.value])
