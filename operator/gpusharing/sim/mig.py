"""Into which MIG instances boards can be cut: NVIDIA's published tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from gpusharing.sim.state import Media


class Kind(IntEnum):
    """NVML_GPU_INSTANCE_PROFILE_*: by these profiles are enumerated, everything else uses the id."""

    ONE_SLICE = 0x0
    TWO_SLICES = 0x1
    THREE_SLICES = 0x2
    FOUR_SLICES = 0x3
    SEVEN_SLICES = 0x4
    ONE_SLICE_MEDIA = 0x7
    TWO_SLICES_MEDIA = 0x8
    ONE_SLICE_DOUBLE_MEMORY = 0x9
    ONE_SLICE_GRAPHICS = 0xA
    TWO_SLICES_GRAPHICS = 0xB
    FOUR_SLICES_GRAPHICS = 0xC
    ONE_SLICE_NO_MEDIA = 0xD
    TWO_SLICES_NO_MEDIA = 0xE
    ONE_SLICE_ALL_MEDIA = 0xF
    TWO_SLICES_ALL_MEDIA = 0x10


_MEDIA = {
    Kind.ONE_SLICE_MEDIA: Media.ONE,
    Kind.TWO_SLICES_MEDIA: Media.ONE,
    Kind.ONE_SLICE_NO_MEDIA: Media.NONE,
    Kind.TWO_SLICES_NO_MEDIA: Media.NONE,
    Kind.ONE_SLICE_ALL_MEDIA: Media.ALL,
    Kind.TWO_SLICES_ALL_MEDIA: Media.ALL,
}
_GRAPHICS = {Kind.ONE_SLICE_GRAPHICS, Kind.TWO_SLICES_GRAPHICS, Kind.FOUR_SLICES_GRAPHICS}


class Shape(NamedTuple):
    """What a profile has in common on all boards of a family."""

    kind: Kind
    id: int
    slices: int
    memory_slices: int
    max_instances: int
    # Where it can begin, in the order in which the driver tries it. Known for boards with 7 slices only; for the
    # others from the end, too.
    starts: tuple[int, ...]
    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpegs: int
    ofas: int


@dataclass(frozen=True)
class ComputeProfile:
    """A compute instance within a GPU instance. `kind` is NVML_COMPUTE_INSTANCE_PROFILE_* and the id as well."""

    kind: int
    name: str
    slices: int
    multiprocessors: int
    starts: tuple[int, ...]


@dataclass(frozen=True)
class MigProfile:
    name: str
    memory_mib: int
    shape: Shape
    compute_profiles: tuple[ComputeProfile, ...]

    @property
    def media(self) -> Media:
        return _MEDIA.get(self.shape.kind, Media.DEFAULT)

    @property
    def graphics(self) -> bool:
        return self.shape.kind in _GRAPHICS


# By the slices of the GPU instance and of the compute instance, where the latter can begin.
_COMPUTE_STARTS: dict[int, dict[int, tuple[int, ...]]] = {
    1: {1: (0,)},
    2: {1: (0, 1), 2: (0,)},
    3: {1: (0, 1, 2), 2: (0,), 3: (0,)},
    4: {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)},
    7: {1: (0, 1, 2, 3, 4, 5, 6), 2: (0, 2, 4), 3: (0, 4), 4: (0,), 7: (0,)},
}
_COMPUTE_KINDS = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}


def _profiles(family: tuple[Shape, ...], memory_mib: Mapping[str, int]) -> tuple[MigProfile, ...]:
    """`memory_mib` names the profiles of a board, in the order of its family."""
    slice_multiprocessors = family[0].multiprocessors
    return tuple(
        MigProfile(name, mib, shape, _compute_profiles(name, shape, slice_multiprocessors))
        for shape, (name, mib) in zip(family, memory_mib.items(), strict=True)
    )


def _compute_profiles(name: str, shape: Shape, slice_multiprocessors: int) -> tuple[ComputeProfile, ...]:
    return tuple(
        ComputeProfile(
            kind=_COMPUTE_KINDS[slices],
            name=name if slices == shape.slices else f"{slices}c.{name}",
            slices=slices,
            # Only an instance of full size gets what is left over by equal slices.
            multiprocessors=shape.multiprocessors if slices == shape.slices else slices * slice_multiprocessors,
            starts=starts,
        )
        for slices, starts in _COMPUTE_STARTS[shape.slices].items()
    )


_SINGLE = (6, 4, 5, 0, 1, 2, 3)
_PAIR = (4, 0, 2)
_PAIR_OF_MEMORY = (6, 4, 0, 2)
_HALF = (4, 0)
_LOWER_HALF = (0,)
_WHOLE = (0,)

_A30 = (
    Shape(Kind.ONE_SLICE, 14, 1, 1, 4, (3, 2, 1, 0), 14, 1, 1, 0, 0, 0),
    Shape(Kind.ONE_SLICE_MEDIA, 21, 1, 1, 1, (3, 2, 1, 0), 14, 1, 1, 0, 1, 1),
    Shape(Kind.TWO_SLICES, 5, 2, 2, 2, (2, 0), 28, 2, 2, 0, 0, 0),
    Shape(Kind.TWO_SLICES_MEDIA, 6, 2, 2, 1, (2, 0), 28, 2, 2, 0, 1, 1),
    Shape(Kind.FOUR_SLICES, 0, 4, 4, 1, _WHOLE, 56, 4, 4, 0, 1, 1),
)
_A100 = (
    Shape(Kind.ONE_SLICE, 19, 1, 1, 7, _SINGLE, 14, 1, 0, 0, 0, 0),
    Shape(Kind.ONE_SLICE_MEDIA, 20, 1, 1, 1, _SINGLE, 14, 1, 1, 0, 1, 1),
    Shape(Kind.ONE_SLICE_DOUBLE_MEMORY, 15, 1, 2, 4, _PAIR_OF_MEMORY, 14, 1, 1, 0, 0, 0),
    Shape(Kind.TWO_SLICES, 14, 2, 2, 3, _PAIR, 28, 2, 1, 0, 0, 0),
    Shape(Kind.THREE_SLICES, 9, 3, 4, 2, _HALF, 42, 3, 2, 0, 0, 0),
    Shape(Kind.FOUR_SLICES, 5, 4, 4, 1, _LOWER_HALF, 56, 4, 2, 0, 0, 0),
    Shape(Kind.SEVEN_SLICES, 0, 7, 8, 1, _WHOLE, 98, 7, 5, 0, 1, 1),
)
_HOPPER = (
    Shape(Kind.ONE_SLICE, 19, 1, 1, 7, _SINGLE, 16, 1, 1, 0, 1, 0),
    Shape(Kind.ONE_SLICE_MEDIA, 20, 1, 1, 1, _SINGLE, 16, 1, 1, 0, 1, 1),
    Shape(Kind.ONE_SLICE_DOUBLE_MEMORY, 15, 1, 2, 4, _PAIR_OF_MEMORY, 26, 1, 1, 0, 1, 0),
    Shape(Kind.TWO_SLICES, 14, 2, 2, 3, _PAIR, 32, 2, 2, 0, 2, 0),
    Shape(Kind.THREE_SLICES, 9, 3, 4, 2, _HALF, 60, 3, 3, 0, 3, 0),
    Shape(Kind.FOUR_SLICES, 5, 4, 4, 1, _LOWER_HALF, 64, 4, 4, 0, 4, 0),
    Shape(Kind.SEVEN_SLICES, 0, 7, 8, 1, _WHOLE, 132, 8, 7, 0, 7, 1),
)
# Of the larger profiles NVIDIA has published only names, ids and copy engines: the rest, and their memory below, are
# continued from the smaller ones.
_B200 = (
    Shape(Kind.ONE_SLICE, 19, 1, 1, 7, _SINGLE, 18, 2, 1, 0, 1, 0),
    Shape(Kind.ONE_SLICE_MEDIA, 20, 1, 1, 1, _SINGLE, 18, 2, 1, 0, 1, 1),
    Shape(Kind.ONE_SLICE_DOUBLE_MEMORY, 15, 1, 2, 4, _PAIR_OF_MEMORY, 30, 2, 1, 0, 1, 0),
    Shape(Kind.TWO_SLICES, 14, 2, 2, 3, _PAIR, 36, 4, 2, 0, 2, 0),
    Shape(Kind.THREE_SLICES, 9, 3, 4, 2, _HALF, 70, 6, 3, 0, 3, 0),
    Shape(Kind.FOUR_SLICES, 5, 4, 4, 1, _LOWER_HALF, 72, 8, 4, 0, 4, 0),
    Shape(Kind.SEVEN_SLICES, 0, 7, 8, 1, _WHOLE, 148, 16, 7, 0, 7, 1),
)
_RTX_PRO = (
    Shape(Kind.ONE_SLICE, 14, 1, 3, 4, (9, 6, 3, 0), 46, 1, 1, 1, 1, 0),
    Shape(Kind.ONE_SLICE_MEDIA, 21, 1, 3, 1, (9, 6, 3, 0), 46, 1, 1, 1, 1, 1),
    Shape(Kind.ONE_SLICE_GRAPHICS, 47, 1, 3, 4, (9, 6, 3, 0), 46, 1, 1, 1, 1, 0),
    Shape(Kind.ONE_SLICE_ALL_MEDIA, 65, 1, 3, 1, (9, 6, 3, 0), 46, 1, 4, 4, 4, 1),
    Shape(Kind.ONE_SLICE_NO_MEDIA, 67, 1, 3, 4, (9, 6, 3, 0), 46, 1, 0, 0, 0, 0),
    Shape(Kind.TWO_SLICES, 5, 2, 6, 2, (6, 0), 94, 2, 2, 2, 2, 0),
    Shape(Kind.TWO_SLICES_GRAPHICS, 35, 2, 6, 2, (6, 0), 94, 2, 2, 2, 2, 0),
    Shape(Kind.TWO_SLICES_ALL_MEDIA, 64, 2, 6, 1, (6, 0), 94, 2, 4, 4, 4, 1),
    Shape(Kind.TWO_SLICES_NO_MEDIA, 66, 2, 6, 2, (6, 0), 94, 2, 0, 0, 0, 0),
    Shape(Kind.FOUR_SLICES, 0, 4, 12, 1, _WHOLE, 188, 4, 4, 4, 4, 1),
    Shape(Kind.FOUR_SLICES_GRAPHICS, 32, 4, 12, 1, _WHOLE, 188, 4, 4, 4, 4, 1),
)

NOT_CAPABLE: tuple[MigProfile, ...] = ()
A30 = _profiles(_A30, {"1g.6gb": 5952, "1g.6gb+me": 5952, "2g.12gb": 11968, "2g.12gb+me": 11968, "4g.24gb": 24000})
A100_40GB = _profiles(
    _A100,
    {
        "1g.5gb": 4864,
        "1g.5gb+me": 4864,
        "1g.10gb": 9984,
        "2g.10gb": 9984,
        "3g.20gb": 20096,
        "4g.20gb": 20096,
        "7g.40gb": 40448,
    },
)
A100_80GB = _profiles(
    _A100,
    {
        "1g.10gb": 9728,
        "1g.10gb+me": 9728,
        "1g.20gb": 19968,
        "2g.20gb": 19968,
        "3g.40gb": 40192,
        "4g.40gb": 40192,
        "7g.80gb": 80896,
    },
)
H100_80GB = _profiles(
    _HOPPER,
    {
        "1g.10gb": 9984,
        "1g.10gb+me": 9984,
        "1g.20gb": 20096,
        "2g.20gb": 20096,
        "3g.40gb": 40448,
        "4g.40gb": 40448,
        "7g.80gb": 81152,
    },
)
H100_NVL = _profiles(
    _HOPPER,
    {
        "1g.12gb": 11008,
        "1g.12gb+me": 11008,
        "1g.24gb": 22144,
        "2g.24gb": 22144,
        "3g.47gb": 47488,
        "4g.47gb": 47488,
        "7g.94gb": 95360,
    },
)
H200 = _profiles(
    _HOPPER,
    {
        "1g.18gb": 16384,
        "1g.18gb+me": 16384,
        "1g.35gb": 33280,
        "2g.35gb": 33280,
        "3g.71gb": 71424,
        "4g.71gb": 71424,
        "7g.141gb": 143360,
    },
)
B200 = _profiles(
    _B200,
    {
        "1g.23gb": 22528,
        "1g.23gb+me": 22528,
        "1g.45gb": 45312,
        "2g.45gb": 45312,
        "3g.90gb": 90880,
        "4g.90gb": 90880,
        "7g.180gb": 181760,
    },
)
RTX_PRO_6000 = _profiles(
    _RTX_PRO,
    {
        "1g.24gb": 24192,
        "1g.24gb+me": 24192,
        "1g.24gb+gfx": 24192,
        "1g.24gb+me.all": 24192,
        "1g.24gb-me": 24192,
        "2g.48gb": 48512,
        "2g.48gb+gfx": 48512,
        "2g.48gb+me.all": 48512,
        "2g.48gb-me": 48512,
        "4g.96gb": 97408,
        "4g.96gb+gfx": 97408,
    },
)
