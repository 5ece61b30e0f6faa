"""How the driver's programs are run, beyond what their users test."""

import asyncio
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from gpusharing.nvidia import programs


async def test_cancellation_at_the_moment_of_the_end_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that ends the agent comes when it likes, and only once."""
    wait = Process.wait

    async def wait_and_cancel(process: Process) -> int:
        code = await wait(process)
        running.cancel()
        return code

    monkeypatch.setattr(Process, "wait", wait_and_cancel)
    running = asyncio.create_task(programs.run(Path("/bin/true"), environment={}, timeout=60))
    with pytest.raises(asyncio.CancelledError):
        await running
