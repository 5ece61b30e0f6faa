"""Access to the shared state from Python, under the lock that the C library takes."""

from __future__ import annotations

import fcntl
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpusharing.sim.errors import SimError
from gpusharing.sim.header import layout_version
from gpusharing.sim.state import MAGIC, NodeState

# As /dev/nvidiactl: the driver itself decides what needs root.
_MODE = 0o666


def write_new(path: Path, state: NodeState) -> None:
    state.magic = MAGIC
    state.layout = layout_version()
    aside = path.with_name(f"{path.name}.new")
    aside.write_bytes(bytes(state))
    aside.chmod(_MODE)
    aside.rename(path)


@contextmanager
def locked(path: Path) -> Iterator[NodeState]:
    """The state itself, not a copy: what is assigned is seen by everyone."""
    try:
        file = path.open("r+b")
    except FileNotFoundError as error:
        raise SimError(f"{path.parent} is not a simulated GPU node: it has no file {path.name!r}") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield _view(file.fileno(), path)
        finally:
            # Closing is not enough: a child that another thread forked meanwhile still has the descriptor.
            fcntl.flock(file, fcntl.LOCK_UN)


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
