"""Where things are in the directory of a simulated node."""

from __future__ import annotations

from pathlib import Path

from gpusharing.sim.quirks import Quirk

_OF_THE_OPERATOR = Path("run/nvidia/driver")
# The other way round than on systems of today, so that paths stay short.
_LINKS = {"usr/lib64": "../lib", "usr/bin": "../bin"}


def driver_root(directory: Path) -> Path:
    """Where the driver is installed, as below the root of a file system."""
    of_operator = directory / _OF_THE_OPERATOR
    return of_operator if of_operator.is_dir() else directory


def programs(directory: Path) -> Path:
    return driver_root(directory) / "bin"


def make_driver_root(directory: Path, quirks: Quirk) -> None:
    if Quirk.OPERATOR_ROOT in quirks:
        (directory / _OF_THE_OPERATOR).mkdir(parents=True)
    root = driver_root(directory)
    (root / "lib").mkdir()
    (root / "bin").mkdir()
    (root / "usr").mkdir()
    for link, target in _LINKS.items():
        (root / link).symlink_to(target)
