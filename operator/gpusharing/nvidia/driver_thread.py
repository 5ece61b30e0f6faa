"""A thread in the driver's library, and the patience that others have with it.

A call that hangs in the driver cannot be ended from outside. So it keeps the thread; whoever waits for the thread is
told so when the call's time is over; and until it returns nobody waits at all. Work that was given up is never begun
later, and when the call that it hung in returns, it may still clean up, but goes no step further.
"""

import asyncio
import concurrent.futures
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, ParamSpec, TypeVar

import structlog

from gpusharing.nvidia.errors import DriverHungError

P = ParamSpec("P")
T = TypeVar("T")

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How many seconds a single call may take."""

    question: float = 20.0
    """While somebody cuts MIG instances, looking for a GPU has been seen to take ten."""
    change: float = 60.0
    """A change of Ampere's MIG mode resets the GPU."""


PATIENCE: Final = Patience()


class _Work(Generic[T]):
    def __init__(self, function: Callable[[], T]) -> None:
        self.function = function
        self.result: concurrent.futures.Future[T] = concurrent.futures.Future()
        self.abandoned = False
        self.stop: DriverHungError | None = None
        """To be raised where the work is."""


class _Call(NamedTuple):
    name: str
    began: float
    patience: float

    def age(self) -> float:
        return time.monotonic() - self.began

    def left(self) -> float:
        return self.patience - self.age()


class DriverThread:
    def __init__(
        self, patience: Patience = PATIENCE, *, held_up: Callable[[], DriverHungError | None] = lambda: None
    ) -> None:
        """`held_up`: why another thread keeps this one from its work, for good as far as one can see."""
        self._patience = patience
        self._held_up = held_up
        self._queue: queue.SimpleQueue[_Work[Any] | None] = queue.SimpleQueue()
        # Between giving up work because of a call, and that call's return.
        self._lock = threading.Lock()
        self._at_work: _Work[Any] | None = None
        self._call: _Call | None = None
        # A daemon, so that a process whose driver hangs can end.
        threading.Thread(target=self._run, name="driver", daemon=True).start()

    def hung(self) -> DriverHungError | None:
        """Why nothing can be asked of the driver now."""
        call = self._call
        if call is None or call.left() > 0:
            return None
        return DriverHungError(f"the GPU driver has not answered {call.name} for {call.age():.1f} s")

    def _cannot_go_on(self) -> DriverHungError | None:
        return self.hung() or self._held_up()

    async def do(self, function: Callable[[], T]) -> T:
        """Runs it in the thread. It calls the driver through `ask` and `change`."""
        if hung := self._cannot_go_on():
            raise hung
        work = _Work(function)
        self._queue.put(work)
        result = asyncio.wrap_future(work.result)
        try:
            while True:
                await asyncio.wait({result}, timeout=self._time_left())
                if result.done():
                    return result.result()
                if hung := self._give_up(work):
                    raise hung
        finally:
            # Work that nobody waits for is not begun. What has begun comes to its end.
            result.cancel()

    def ask(self, function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        return self._timed(self._patience.question, function, *arguments, **keywords)

    def change(self, function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        return self._timed(self._patience.change, function, *arguments, **keywords)

    def close(self) -> None:
        """What is queued comes to its end; nobody waits for it."""
        self._queue.put(None)

    def _timed(self, patience: float, function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        call = self._call = _Call(function.__name__, time.monotonic(), patience)
        try:
            return function(*arguments, **keywords)
        finally:
            self._returned(call)

    def _returned(self, call: _Call) -> None:
        with self._lock:
            self._call = None
            if self._at_work is None or self._at_work.stop is None:
                return
            # Once only, so that the work can clean up.
            stop, self._at_work.stop = self._at_work.stop, None
        log.warning("GPU driver responds again", call=call.name, after=round(call.age(), 1))
        raise stop

    def _time_left(self) -> float:
        """Until it has to be looked at anew: at the latest when a call that is begun now would be overdue."""
        call = self._call
        return max(0, min(call.left(), self._patience.question)) if call else self._patience.question

    def _give_up(self, work: _Work[Any]) -> DriverHungError | None:
        with self._lock:
            hung = self._cannot_go_on()
            if hung and work is self._at_work:
                work.abandoned, work.stop = True, hung
            elif hung:
                work.result.cancel()
            return hung

    def _run(self) -> None:
        while work := self._queue.get():
            if work.result.set_running_or_notify_cancel():
                self._do(work)

    def _do(self, work: _Work[Any]) -> None:
        with self._lock:
            self._at_work = work
        try:
            work.result.set_result(work.function())
        except BaseException as error:  # noqa: BLE001 (raised where somebody waits for it)
            if work.abandoned and not isinstance(error, DriverHungError):
                log.warning("abandoned GPU operation ended", error=str(error))
            work.result.set_exception(error)
        finally:
            with self._lock:
                self._at_work = None
