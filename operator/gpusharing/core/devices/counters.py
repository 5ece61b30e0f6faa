"""What a GPU has to give and what each way of taking it draws from that: so ways exclude each other in the scheduler.

Whole or shared, a GPU gives all of its memory, beside which nothing else fits. A MIG instance draws its memory slices,
its engines and its memory. Names and amounts are those of NVIDIA's driver.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from gpusharing.core.devices.gpu import Divisible, Engines, Gpu, MigProfile, MigSupport

Draw = Mapping[str, int]

_MEMORY: Final = "memory"
_ENGINES: Final = {
    "multiprocessors": "multiprocessors",
    "copy-engines": "copy_engines",
    "decoders": "decoders",
    "encoders": "encoders",
    "jpeg-engines": "jpeg_engines",
    "ofa-engines": "ofa_engines",
}


def supply(gpu: Divisible) -> Draw:
    """The counters of a GPU, whatever it offers: their slice changes only when the GPU does."""
    return _supply(gpu.memory_mib, gpu.mig)


# Asked dozens of times whenever a GPU is looked at, of the few models that there are.
@lru_cache(maxsize=64)
def _supply(memory_mib: int, mig: MigSupport | None) -> Draw:
    if mig is None or not mig.profiles:
        # Of a GPU that reports no memory, too, whoever has one device must keep others from the rest.
        return {_MEMORY: max(1, memory_mib)}
    slices = max(start + profile.size for profile in mig.profiles for start in profile.starts)
    return (
        _engines(mig.largest)
        | {_MEMORY: max(memory_mib, *(profile.memory_mib for profile in mig.profiles))}
        | _memory_slices(0, slices)
    )


def whole(gpu: Divisible) -> Draw:
    return {_MEMORY: supply(gpu)[_MEMORY]}


def mig_instance(profile: MigProfile, start: int) -> Draw:
    return _engines(profile.engines) | {_MEMORY: profile.memory_mib} | _memory_slices(start, profile.size)


def fit(draws: Iterable[Draw], available: Draw) -> bool:
    """Whether all of it can be had at the same time."""
    total: dict[str, int] = {}
    for draw in draws:
        for name, amount in draw.items():
            total[name] = total.get(name, 0) + amount
            if total[name] > available[name]:
                return False
    return True


def counter_set(gpu: Gpu) -> dict[str, Any]:
    return {"name": _name(gpu), "counters": _counters(supply(gpu))}


def consumption(gpu: Gpu, draw: Draw) -> list[dict[str, Any]]:
    return [{"counterSet": _name(gpu), "counters": _counters(draw)}]


def _name(gpu: Gpu) -> str:
    return f"gpu-{gpu.slot}-counter-set"


def _counters(draw: Draw) -> dict[str, Any]:
    return {name: {"value": f"{amount}Mi" if name == _MEMORY else str(amount)} for name, amount in draw.items()}


def _engines(engines: Engines) -> dict[str, int]:
    amounts = {counter: getattr(engines, field) for counter, field in _ENGINES.items()}
    return {counter: amount for counter, amount in amounts.items() if amount}


def _memory_slices(start: int, size: int) -> dict[str, int]:
    return {f"memory-slice-{number}": 1 for number in range(start, start + size)}
