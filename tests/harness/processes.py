"""Child processes that never outlive their parent and say why they failed."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

# The kernel kills a child with this prefix when the thread that started it ends, however that came about.
DIES_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")

_POLL_SECONDS = 0.05


class ProcessFailedError(Exception):
    pass


class Process:
    """A program in the background with its output in a log file.

    Nothing in here is bound to an event loop, so that a test may stop what a session's fixture has started.
    """

    def __init__(
        self,
        argv: Sequence[str | Path],
        *,
        log: Path,
        ready: Callable[[], Awaitable[bool]] | None = None,
        env: Mapping[str, str] | None = None,
        stop_within: float = 10,
    ) -> None:
        """`env` is added to the environment; `stop_within` is how long SIGTERM may take before SIGKILL."""
        self.argv = [str(argument) for argument in argv]
        self.name = log.stem
        self.log = log
        self._ready = ready
        self.env = {**os.environ, **(env or {})}
        self._stop_within = stop_within
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        if self._child is None:
            raise ProcessFailedError(f"{self.name} is not started")
        return self._child.pid

    def _command(self) -> list[str]:
        return self.argv

    async def start(self, *, within: float = 60) -> None:
        """Returns when the program is ready."""
        self._child = self._spawn()
        try:
            await self._until_ready(within)
        except BaseException:
            await self.kill()
            raise

    async def stop(self) -> None:
        """Lets the program end by itself, within bounds."""
        self._signal(signal.SIGTERM)
        if not await self._ended(self._stop_within):
            await self.kill()

    async def kill(self) -> None:
        self._signal(signal.SIGKILL)
        await self._ended(float("inf"))

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def last_lines(self, count: int = 20) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    @asynccontextmanager
    async def killed_at_end(self) -> AsyncIterator[Self]:
        """For programs that leave nothing of value, so that nobody waits for their graceful end."""
        await self.start()
        try:
            yield self
        finally:
            await self.kill()

    def _spawn(self) -> subprocess.Popen[bytes]:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [*DIES_WITH_PARENT, *self._command()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.env,
                # Ctrl-C is for the tests, which then stop their children in order.
                start_new_session=True,
            )

    async def _until_ready(self, within: float) -> None:
        deadline = time.monotonic() + within
        while self._ready and not await self._ready():
            if not self.running:
                raise ProcessFailedError(f"{self.name} ended before it was ready:\n{self.last_lines()}")
            if time.monotonic() > deadline:
                raise ProcessFailedError(f"{self.name} was not ready in {within:g} s:\n{self.last_lines()}")
            await asyncio.sleep(_POLL_SECONDS)

    async def _ended(self, within: float) -> bool:
        deadline = time.monotonic() + within
        while self.running:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    def _signal(self, number: signal.Signals) -> None:
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)
