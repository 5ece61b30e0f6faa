"""Access to the shared state from Python, under the lock that the C library takes."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpusharing.sim import rules
from gpusharing.sim.errors import SimError
from gpusharing.sim.header import layout_version
from gpusharing.sim.state import MAGIC, GpuState, NodeState

# As /dev/nvidiactl: the driver itself decides what needs root.
_MODE = 0o666

PROCESSES = "processes"


@dataclass(frozen=True)
class Access:
    """The state and what lies beside it, while the lock is held."""

    state: NodeState
    directory: Path
    # A descriptor of the file in which running processes hold locks.
    processes: int


def write_new(path: Path, state: NodeState) -> None:
    state.magic = MAGIC
    state.layout = layout_version()
    processes = path.with_name(PROCESSES)
    processes.touch()
    processes.chmod(_MODE)
    aside = path.with_name(f"{path.name}.new")
    with aside.open("wb") as file:
        # What lies behind the last GPU is zero and takes no place.
        unused = (len(state.gpus) - state.gpu_count) * ctypes.sizeof(GpuState)
        file.write(memoryview(state).cast("B")[: ctypes.sizeof(state) - unused])
        file.truncate(ctypes.sizeof(state))
    aside.chmod(_MODE)
    aside.rename(path)


@contextmanager
def locked(path: Path) -> Iterator[NodeState]:
    """The state itself, not a copy: what is assigned is seen by everyone."""
    with opened(path) as access:
        yield access.state


@contextmanager
def opened(path: Path) -> Iterator[Access]:
    try:
        file = path.open("r+b")
    except FileNotFoundError as error:
        raise SimError(f"{path.parent} is not a simulated GPU node: it has no file {path.name!r}") from error
    with file, path.with_name(PROCESSES).open("r+b") as processes:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            access = Access(_view(file.fileno(), path), path.parent, processes.fileno())
            rules.repair(access.state, access.directory, access.processes)
            yield access
            rules.write_files(access.state, access.directory)
        finally:
            # Closing is not enough: a child that another thread forked meanwhile still has the descriptor.
            fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def changing(state: NodeState, index: int) -> Iterator[GpuState]:
    """Several fields of a GPU, all or none: who is killed in between leaves it as it was, and so does an error."""
    rules.begin_change(state, index)
    # Not after an error: who takes the lock next undoes what has no end.
    yield state.gpus[index]
    rules.end_change(state)


def _view(descriptor: int, path: Path) -> NodeState:
    # Never closed explicitly: the view keeps the mapping, and what came from the view keeps the view.
    memory = mmap.mmap(descriptor, 0)
    try:
        state = NodeState.from_buffer(memory)
    except ValueError as error:
        raise SimError(f"state file {path}: too short; create the node again") from error
    if state.magic != MAGIC:
        raise SimError(f"state file {path}: not the state of a simulated node")
    if state.layout != layout_version():
        raise SimError(
            f"state file {path}: layout version {state.layout:#x}, but this program has {layout_version():#x}; "
            "create the node again"
        )
    return state
