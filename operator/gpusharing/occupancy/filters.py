"""A part of the fleet: with its own sums."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from gpusharing.occupancy.fleet import Fleet, GpuUse
from gpusharing.occupancy.sums import summed

_BUSY: Final = 0.05
"""A GPU below does nothing worth its price."""


def part_of(fleet: Fleet, *, node: str = "", policy: str = "", namespace: str = "", idle: bool = False) -> Fleet:
    """GPUs to which all of these apply; of a namespace those on which it has a claim, with all who are there."""
    tests: Sequence[Callable[[GpuUse], bool]] = [
        *([lambda gpu: gpu.node == node] if node else []),
        *([lambda gpu: gpu.policy == policy] if policy else []),
        *([lambda gpu: any(one.namespace == namespace for one in gpu.holders)] if namespace else []),
        *([is_idle] if idle else []),
    ]
    if not tests:
        return fleet
    nodes = [
        replace(one, gpus=tuple(gpu for gpu in one.gpus if all(test(gpu) for test in tests))) for one in fleet.nodes
    ]
    waiting = tuple(one for one in fleet.waiting if namespace in {"", one.namespace})
    return summed(replace(fleet, nodes=tuple(one for one in nodes if one.gpus), waiting=waiting))


def is_idle(gpu: GpuUse) -> bool:
    """Nobody holds it, or it was measured and does next to nothing."""
    return gpu.is_idle or (gpu.utilization is not None and gpu.utilization < _BUSY)
