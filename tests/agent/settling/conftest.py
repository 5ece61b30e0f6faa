"""Where MPS daemons live."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.mounts import daemons_in


@pytest.fixture
def mps_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="mps", dir="/tmp"))
    yield home
    assert daemons_in(home) == []
    shutil.rmtree(home)
