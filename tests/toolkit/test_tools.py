"""The programs are NVIDIA's, of the version that is pinned."""

import re
import subprocess
from pathlib import Path

import pytest

from harness.toolchain import TOOLS


@pytest.mark.parametrize("program", ["nvidia-ctk", "nvidia-cdi-hook"])
def test_version(tools: Path, program: str) -> None:
    pinned = re.search(r"nvidia-container-toolkit (v\S+)", (TOOLS / "nvidia/go.mod").read_text())
    assert pinned is not None
    done = subprocess.run([tools / program, "--version"], capture_output=True, text=True, check=True, timeout=20)
    assert done.stdout.split()[-1] == pinned[1]
