"""What outlives the program that has started it ends with the test run, also where that was killed."""

import asyncio
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.eventually import eventually
from harness.scratch import scratch_directory

TESTS = Path(__file__).parents[1]
# It starts a process that it awaits and three that nobody awaits, and says their numbers. One has an environment of its
# own, as daemons of a simulated node that an agent in this process starts.
RUN = """
import shutil, subprocess, sys, time
from pathlib import Path
from harness.orphans import mark_processes, mark_programs_below, orphans

mark_processes()
directory = Path(sys.argv[1])
mark_programs_below(directory)
shutil.copy("/bin/sleep", directory / "daemon")
awaited = subprocess.Popen(["sleep", "1000"])
subprocess.run(["sh", "-c", "sleep 2000 & sleep 3000 &"])
subprocess.run(["sh", "-c", f"{directory}/daemon 4000 &"], env={})
while len(orphans()) < 3:
    time.sleep(0.01)
print(awaited.pid, *(each.partition(":")[0] for each in orphans()), flush=True)
time.sleep(1000)
"""


@asynccontextmanager
async def started(*argv: str | Path) -> AsyncIterator[asyncio.subprocess.Process]:
    program = await asyncio.create_subprocess_exec(*argv, cwd=TESTS, stdout=asyncio.subprocess.PIPE)
    try:
        yield program
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()


def is_running(pid: int) -> bool:
    """A process that has ended, and that nobody has reaped yet, has no program any more."""
    try:
        Path(f"/proc/{pid}/exe").readlink()
    except FileNotFoundError:
        return False
    return True


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
async def test_daemons_of_a_run(end: signal.Signals, tmp_path: Path) -> None:
    async with started(sys.executable, "-c", RUN, tmp_path) as run:
        assert run.stdout
        pids = [int(pid) for pid in (await run.stdout.readline()).split()]
        assert len(set(pids)) == 4
        assert all(is_running(pid) for pid in pids)
        run.send_signal(end)
        await run.wait()

        async def ended() -> None:
            assert not [pid for pid in pids if is_running(pid)]

        await eventually(ended)


async def test_programs_of_a_directory() -> None:
    with scratch_directory() as directory:
        program = directory / "below" / "sleeps"
        program.parent.mkdir()
        shutil.copy("/bin/sleep", program)
        async with started("sh", "-c", f"{program} 1000 >/dev/null & echo $!") as shell:
            assert shell.stdout
            pid = int(await shell.stdout.readline())
        assert is_running(pid)
    assert not is_running(pid)
    assert not directory.exists()
