"""A thread in the driver's library for each GPU, and one for what concerns all of them.

NVML may be called by several threads at the same time. So a slow step on one GPU (minutes, for some changes of MIG)
holds up nobody who works on another; what is asked of one GPU is done in its order. Only a new session needs the
library for itself, because everything that the old one gave out is void then.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, ParamSpec, TypeVar

from gpusharing.nvidia.driver_thread import PATIENCE, DriverThread, Patience
from gpusharing.nvidia.errors import DriverHungError

P = ParamSpec("P")
T = TypeVar("T")

_NODE: Final = ""
# For a driver that hangs in the thread that is waited for.
_LOOK_EVERY: Final = 0.1


class DriverThreads:
    def __init__(self, patience: Patience = PATIENCE) -> None:
        self._patience = patience
        self._turns = _Turns()
        self._current = threading.local()
        self._threads: dict[str, DriverThread] = {}
        self._thread_of(_NODE)

    def hung(self) -> DriverHungError | None:
        """Why some GPU, or the node as a whole, cannot be asked for anything now."""
        return next((hung for thread in list(self._threads.values()) if (hung := thread.hung())), None)

    async def do(self, function: Callable[[], T], *, gpu: str = _NODE) -> T:
        """Runs it in the GPU's thread. It calls the driver through `ask` and `change`."""
        thread = self._thread_of(gpu)

        def work() -> T:
            self._current.thread = thread
            with self._turns.working():
                return function()

        return await thread.do(work)

    def ask(self, function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        thread: DriverThread = self._current.thread
        return thread.ask(function, *arguments, **keywords)

    def change(self, function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        thread: DriverThread = self._current.thread
        return thread.change(function, *arguments, **keywords)

    def alone(self, action: Callable[[], None]) -> None:
        """Runs it while no other thread is in the library: they come to the end of their work, or wait here as well,
        and then it is run once for all that wait."""
        self._turns.alone(action, self._current.thread, is_hung=self.hung)

    def close(self) -> None:
        """What is queued comes to its end; nobody waits for it."""
        for thread in self._threads.values():
            thread.close()

    def _thread_of(self, gpu: str) -> DriverThread:
        if gpu not in self._threads:
            self._threads[gpu] = DriverThread(self._patience, held_up=self._turns.held_up)
        return self._threads[gpu]


class _Turns:
    """Who is in the library: some who work, or one who is alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._working = 0
        self._waiting = 0
        self._alone: DriverThread | None = None
        self._finished = 0

    def held_up(self) -> DriverHungError | None:
        """Why nobody can begin: who is alone hangs."""
        alone = self._alone
        return alone.hung() if alone else None

    @contextmanager
    def working(self) -> Iterator[None]:
        with self._changed:
            while self._waiting:
                self._changed.wait()
            self._working += 1
        try:
            yield
        finally:
            with self._changed:
                self._working -= 1
                self._changed.notify_all()

    def alone(
        self, action: Callable[[], None], thread: DriverThread, *, is_hung: Callable[[], DriverHungError | None]
    ) -> None:
        """By one who works."""
        with self._changed:
            finished = self._finished
            self._working -= 1
            self._waiting += 1
            self._changed.notify_all()
            try:
                while self._finished == finished and (self._working or self._alone):
                    self._changed.wait(_LOOK_EVERY)
                    if hung := is_hung():
                        raise hung
                if self._finished == finished:
                    self._act(action, thread)
                    self._finished += 1
            finally:
                self._waiting -= 1
                self._working += 1
                self._changed.notify_all()

    def _act(self, action: Callable[[], None], thread: DriverThread) -> None:
        self._alone = thread
        self._changed.release()
        try:
            action()
        finally:
            self._changed.acquire()
            self._alone = None
