"""A cluster in the background is ended once, and says whether there was one."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from harness import supervisor

HOLDS: Final = """
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from harness import supervisor

@asynccontextmanager
async def cluster():
    try:
        yield "it runs"
    finally:
        Path(sys.argv[1], "left").touch()

supervisor.hold(Path(sys.argv[1]), cluster())
"""


def test_stop_says_whether_anything_ran(tmp_path: Path) -> None:
    assert not supervisor.stop(tmp_path)
    assert supervisor.process_of(tmp_path) is None
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout
            assert holder.stdout.readline() == "it runs\n"
            with pytest.raises(supervisor.SupervisorError, match="has a running cluster: end it first"):
                supervisor.start_in_background(tmp_path, command, print)
            assert supervisor.process_of(tmp_path) == holder.pid
            assert supervisor.stop(tmp_path)
        finally:
            holder.kill()
    assert (tmp_path / "left").exists()
    assert not supervisor.stop(tmp_path)
    assert supervisor.process_of(tmp_path) is None


def test_messages_are_followed_until_it_runs(tmp_path: Path) -> None:
    # In a program of its own, which ends while the cluster runs.
    starts = f"""
import sys
from pathlib import Path
from harness.supervisor import start_in_background
code = "import sys; print('first', file=sys.stderr)" + {HOLDS!r}
told = []
text = start_in_background(Path(sys.argv[1]), [sys.executable, "-c", code, sys.argv[1]], told.extend)
print(*told, text)
"""
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", starts, str(tmp_path)], check=True, capture_output=True, text=True
        )
        assert done.stdout == "first it runs\n"
    finally:
        assert supervisor.stop(tmp_path)


def test_failure_shows_the_end_of_the_log_and_its_name(tmp_path: Path) -> None:
    with pytest.raises(supervisor.SupervisorError) as failure:
        supervisor.start_in_background(tmp_path, [sys.executable, "-c", "raise SystemExit('no disk')"], print)
    assert str(failure.value) == f"no disk\nAll of it: {tmp_path}/supervisor.log"
