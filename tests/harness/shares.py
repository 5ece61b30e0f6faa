"""Work of a fuzzer, shared among all processors."""

import ctypes
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")

_PR_SET_PDEATHSIG: Final = 1


def shares(count: int, *, size: int) -> list[range]:
    """The numbers of `count` cases, `size` of them in each share."""
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def each_by_itself(work: Callable[[range], T], numbers: list[range]) -> Iterator[T]:
    """What is found in each share, in their order, by processes that do not outlive this one."""
    # Spawned rather than forked: the oracles of this process are none of the children's business.
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(mp_context=spawned, initializer=_die_with_parent) as pool:
        yield from pool.map(work, numbers)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
