"""A simulated node whose GPUs are others, or have other numbers, at the next boot."""

import ctypes
from dataclasses import dataclass

from gpusharing import sim
from gpusharing.sim import store
from gpusharing.sim.state import NodeState


@dataclass(frozen=True)
class Absence:
    """Of one GPU."""

    place: int
    minors: tuple[int, ...]
    """Of all GPUs, before."""


def take_out(node: sim.SimNode, place: int) -> Absence:
    """The kernel numbers the others anew at the next boot."""
    with store.locked(node.state) as state:
        absence = Absence(place, tuple(gpu.minor for gpu in state.gpus[: state.gpu_count]))
        last = state.gpu_count - 1
        _move(state, place, last)
        # Behind the last one, where nobody looks, it is kept.
        state.gpu_count = last
        for gpu, minor in zip(state.gpus[:last], sorted(absence.minors), strict=False):
            gpu.minor = minor
    return absence


def exchange_boards(node: sim.SimNode) -> None:
    """The first GPU is put into the last slot, and all others one slot forward: the kernel counts by slots."""
    with store.locked(node.state) as state:
        minors = sorted(gpu.minor for gpu in state.gpus[: state.gpu_count])
        _move(state, 0, state.gpu_count - 1)
        for gpu, minor in zip(state.gpus[: state.gpu_count], minors, strict=True):
            gpu.minor = minor


def put_back(node: sim.SimNode, absence: Absence) -> None:
    with store.locked(node.state) as state:
        last = state.gpu_count
        state.gpu_count = last + 1
        _move(state, last, absence.place)
        for gpu, minor in zip(state.gpus[: state.gpu_count], absence.minors, strict=True):
            gpu.minor = minor


def _move(state: NodeState, source: int, target: int) -> None:
    """Those between make room."""
    size = ctypes.sizeof(state.gpus[0])
    moved = ctypes.string_at(ctypes.addressof(state.gpus[source]), size)
    step = 1 if target > source else -1
    for index in range(source, target, step):
        ctypes.memmove(ctypes.byref(state.gpus[index]), ctypes.byref(state.gpus[index + step]), size)
    ctypes.memmove(ctypes.byref(state.gpus[target]), moved, size)
