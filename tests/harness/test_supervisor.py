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
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout
            assert holder.stdout.readline() == "it runs\n"
            with pytest.raises(supervisor.SupervisorError, match="has a running cluster: end it first"):
                supervisor.start_in_background(tmp_path, command)
            assert supervisor.stop(tmp_path)
        finally:
            holder.kill()
    assert (tmp_path / "left").exists()
    assert not supervisor.stop(tmp_path)
