"""Tables of `nvidia-smi mig`, read as scripts read them: words in lines between bars."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PLACEMENTS = re.compile(r"GPU +(\d+) Profile ID +(\d+) Placement(?:s| ): \{([\d,]+)\}:(\d+)")


@dataclass(frozen=True)
class GpuProfile:
    gpu: int
    name: str
    id: int
    free: int
    total: int
    memory_gib: float
    multiprocessors: int
    decoders: int
    encoders: int
    copy_engines: int
    jpegs: int
    ofas: int


@dataclass(frozen=True)
class ComputeProfile:
    gpu: int
    gpu_instance: int
    name: str
    id: int
    default: bool
    free: int
    total: int
    multiprocessors: int


@dataclass(frozen=True)
class Instance:
    """A compute instance has the GPU instance that it is in."""

    gpu: int
    name: str
    profile: int
    id: int
    start: int
    size: int
    gpu_instance: int | None = None


def gpu_profiles(table: str) -> list[GpuProfile]:
    lines = _lines(table)
    return [
        _gpu_profile(first, [int(word) for word in second])
        for first, second in zip(lines[::2], lines[1::2], strict=True)
    ]


def _gpu_profile(first: list[str], second: list[int]) -> GpuProfile:
    gpu, _, name, number, instances, memory, _, multiprocessors, decoders, encoders = first
    free, total = instances.split("/")
    copy_engines, jpegs, ofas = second
    return GpuProfile(
        gpu=int(gpu),
        name=name,
        id=int(number),
        free=int(free),
        total=int(total),
        memory_gib=float(memory),
        multiprocessors=int(multiprocessors),
        decoders=int(decoders),
        encoders=int(encoders),
        copy_engines=copy_engines,
        jpegs=jpegs,
        ofas=ofas,
    )


def placements(listing: str) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Starts and sizes by GPU and profile."""
    return {
        (int(gpu), int(profile)): [(int(start), int(size)) for start in starts.split(",")]
        for gpu, profile, starts, size in (_placement_line(line) for line in listing.splitlines())
    }


def _placement_line(line: str) -> tuple[str, ...]:
    found = _PLACEMENTS.fullmatch(line)
    assert found is not None, line
    return found.groups()


def compute_profiles(table: str) -> list[ComputeProfile]:
    return [
        ComputeProfile(
            gpu=int(gpu),
            gpu_instance=int(gpu_instance),
            name=name,
            id=int(number.rstrip("*")),
            default=number.endswith("*"),
            free=int(instances.split("/")[0]),
            total=int(instances.split("/")[1]),
            multiprocessors=int(multiprocessors),
        )
        for gpu, gpu_instance, _, name, number, instances, multiprocessors, *_ in _lines(table)[::2]
    ]


def gpu_instances(table: str) -> list[Instance]:
    return [
        Instance(int(gpu), name, int(profile), int(number), *_placement(placement))
        for gpu, _, name, profile, number, placement in _lines(table)
    ]


def compute_instances(table: str) -> list[Instance]:
    return [
        Instance(int(gpu), name, int(profile), int(number), *_placement(placement), gpu_instance=int(gpu_instance))
        for gpu, gpu_instance, _, name, profile, number, placement in _lines(table)
    ]


def _placement(text: str) -> tuple[int, int]:
    start, size = text.split(":")
    return int(start), int(size)


def _lines(table: str) -> list[list[str]]:
    """Behind the heading, without the lines of the frame, all of which are of the same width."""
    lines = table.splitlines()
    assert len({len(line) for line in lines}) == 1
    end_of_heading = next(number for number, line in enumerate(lines) if line.startswith("|="))
    return [line.strip("|").split() for line in lines[end_of_heading + 1 :] if line.startswith("| ")]
