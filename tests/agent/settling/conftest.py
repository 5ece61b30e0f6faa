"""Where MPS daemons live."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def mps_home() -> Iterator[Path]:
    """A short path: sockets have no room for more."""
    home = Path(tempfile.mkdtemp(prefix="mps", dir="/tmp"))
    yield home
    assert list(home.iterdir()) == []
    shutil.rmtree(home)
