"""Mounts that programs under test have left."""

import subprocess
from pathlib import Path


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


def mounts_below(directory: Path) -> list[Path]:
    """The innermost first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    places = [Path(line.split()[4].replace("\\040", " ")) for line in lines]
    return sorted((place for place in places if place.is_relative_to(directory)), reverse=True)


def daemons_in(home: Path) -> list[str]:
    """The names of the MPS daemons that have a directory there."""
    return sorted(path.name for path in home.iterdir() if not path.name.startswith(".")) if home.is_dir() else []


def unmount_below(directory: Path) -> None:
    for place in mounts_below(directory):
        subprocess.run(["umount", "--lazy", place], check=False)
