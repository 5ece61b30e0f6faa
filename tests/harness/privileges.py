"""What root of a namespace may not. `make test-fast` makes an ordinary user one: the simulated driver demands root."""

import os
from pathlib import Path

import pytest


def need_root_of_machine(what: str) -> None:
    """Skips the test for others."""
    if os.geteuid() != 0 or Path("/proc/self/uid_map").read_text().split() != ["0", "0", str(2**32 - 1)]:
        pytest.skip(f"{what}: only root of the machine may")
