"""The driver's own code, for what Python does to a node: resets, reboots and the like follow the same rules as NVML."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char_p, c_int, c_uint, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path

from gpusharing.sim import build
from gpusharing.sim.state import NONE, NodeState

_State = POINTER(NodeState)

_SIGNATURES: dict[str, tuple[object, ...]] = {
    "sim_repair": (None, _State, c_char_p, c_int),
    "sim_write_files": (None, _State, c_char_p),
    "sim_begin_change": (None, _State, c_uint),
    "sim_end_change": (None, _State),
    "sim_process_pid": (c_uint32, _State, c_uint, c_uint, c_int),
    "sim_create_gpu_instance": (c_int, _State, c_uint, c_uint, c_uint, c_void_p),
    "sim_post_event": (None, _State, c_uint, c_uint, c_uint, c_uint64, c_uint64),
    "sim_reset_gpu": (c_int, _State, c_uint),
    "sim_reload_driver": (None, _State),
}


def repair(state: NodeState, directory: Path, processes: int) -> None:
    """Finish or undo what somebody left half done, and free the slots of dead processes."""
    _library().sim_repair(state, os.fsencode(directory), processes)


def write_files(state: NodeState, directory: Path) -> None:
    _library().sim_write_files(state, os.fsencode(directory))


def begin_change(state: NodeState, gpu: int) -> None:
    _library().sim_begin_change(state, gpu)


def end_change(state: NodeState) -> None:
    _library().sim_end_change(state)


def process_pid(state: NodeState, gpu: int, slot: int, processes: int) -> int:
    pid: int = _library().sim_process_pid(state, gpu, slot, processes)
    return pid


def create_gpu_instance(state: NodeState, gpu: int, profile: int, start: int) -> int:
    """What NVML would return."""
    code: int = _library().sim_create_gpu_instance(state, gpu, profile, start, ctypes.byref(c_uint()))
    return code


def post_event(
    state: NodeState, gpu: int, kind: int, data: int, *, gpu_instance: int = NONE, compute_instance: int = NONE
) -> None:
    _library().sim_post_event(state, gpu, gpu_instance, compute_instance, kind, data)


def reset_gpu(state: NodeState, gpu: int) -> int:
    """What NVML would return."""
    code: int = _library().sim_reset_gpu(state, gpu)
    return code


def reload_driver(state: NodeState) -> None:
    _library().sim_reload_driver(state)


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(os.fspath(build.build() / build.RULES))
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
