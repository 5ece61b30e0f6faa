"""Who has a GPU open without computing on it: what keeps it from being reset, and no list of the driver shows."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_PROCESSES: Final = Path("/proc")


def holders(device: Path) -> list[str]:
    """Names and numbers of other processes that have it open; all of them only for root in the host's PID namespace."""
    return sorted(_name(process) for process in _processes() if any(_is(file, device) for file in _files(process)))


def _processes() -> Iterator[Path]:
    own = str(os.getpid())
    return (entry for entry in _PROCESSES.iterdir() if entry.name.isdecimal() and entry.name != own)


def _files(process: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from (process / "fd").iterdir()


def _is(file: Path, device: Path) -> bool:
    with suppress(OSError):
        return file.readlink() == device
    return False


def _name(process: Path) -> str:
    with suppress(OSError):
        return f"{(process / 'comm').read_text().strip()} ({process.name})"
    return process.name
