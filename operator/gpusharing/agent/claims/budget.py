"""The time that the kubelet gives: it ends a call at its deadline, and then nobody hears why."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

KUBELETS_PATIENCE: Final = 45.0
"""Seconds, where a call does not say."""
# For the answer's way.
_MARGIN: Final = 1.0


class OutOfTimeError(Exception):
    """The message says what took so long, or that nobody wants the work any more."""


class Budget:
    def __init__(self, within: float) -> None:
        self._within = within
        self._end = asyncio.get_running_loop().time() + max(within - _MARGIN, within / 2)

    @property
    def left(self) -> float:
        return max(0, self._end - asyncio.get_running_loop().time())

    async def spend(self, work: Coroutine[Any, Any, T], *, on: str) -> T:
        """Work that ends with the time."""
        try:
            async with asyncio.timeout(self.left) as timeout:
                return await work
        except TimeoutError:
            if not timeout.expired():
                raise
            raise self._out_of_time(on) from None

    async def spend_on_task(self, task: asyncio.Task[T], *, on: Callable[[], str]) -> T:
        """Work that goes on afterwards."""
        await asyncio.wait({task}, timeout=self.left)
        if not task.done():
            raise self._out_of_time(on())
        if task.cancelled():
            raise OutOfTimeError("the kubelet has unprepared it meanwhile")
        return task.result()

    def _out_of_time(self, on: str) -> OutOfTimeError:
        return OutOfTimeError(
            f"not ready within the {self._within:.0f} s that the kubelet waits, still {on}; it tries again"
        )
