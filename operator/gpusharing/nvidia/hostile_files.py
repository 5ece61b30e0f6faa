"""Files that a container may have made, changed or put something else in place of.

Nothing here follows a link, waits for a FIFO or a device, reads without a bound, recurses, or leaves the file system
that it began on. All of it blocks: run it in a thread.
"""

import contextlib
import os
import secrets
import stat
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

_ASIDE: Final = ".removing-"
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_tail(directory: Path, name: str, *, most: int) -> bytes:
    """The last bytes of a regular file. An OSError where it is anything else."""
    with _opened(directory, _DIRECTORY) as parent, _opened(name, _FILE, parent) as file:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{directory / name} is not a regular file")
        return os.pread(file, most, max(0, status.st_size - most))


def set_aside(path: Path) -> Path | None:
    """Frees the name at once, whatever is there. What this returns is to be removed; None: nothing is there."""
    aside = path.with_name(f"{_ASIDE}{secrets.token_hex(8)}")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return None
    return aside


def asides(directory: Path) -> list[Path]:
    """What was set aside in this directory and is not removed yet."""
    return list(directory.glob(f"{_ASIDE}*"))


def remove(path: Path) -> None:
    """Whatever is there, however deep and large. An OSError says what could not be removed; the rest is gone."""
    for _ in steps_of_removal(path):
        pass


def steps_of_removal(path: Path) -> Generator[None]:
    """One entry a step. A directory below is emptied by moving its directories up: two of them are open at a time,
    however deep they lie."""
    try:
        is_directory = stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return
    if not is_directory:
        path.unlink()
        return
    with _opened(path, _DIRECTORY) as top:
        yield from _empty(top)
    path.rmdir()


def _empty(top: int) -> Iterator[None]:
    while names := _some_entries(top):
        for name in names:
            yield
            if not _is_directory(top, name):
                os.unlink(name, dir_fd=top)
                continue
            # The kernel refuses this for mounts, whose files are not ours.
            aside = _move(name, top, top)
            with _opened(aside, _DIRECTORY, top) as below:
                yield from _lift(below, top)
            os.rmdir(aside, dir_fd=top)


def _lift(below: int, top: int) -> Iterator[None]:
    """Removes the files of a directory, and moves its directories to the top."""
    while names := _some_entries(below):
        for name in names:
            yield
            if _is_directory(below, name):
                _move(name, below, top)
            else:
                os.unlink(name, dir_fd=below)


def _move(name: str, parent: int, top: int) -> str:
    aside = secrets.token_hex(16)
    os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=top)
    return aside


def _some_entries(directory: int, most: int = 1024) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry, _ in zip(entries, range(most), strict=False)]


def _is_directory(parent: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


@contextlib.contextmanager
def _opened(path: Path | str, flags: int, parent: int | None = None) -> Iterator[int]:
    descriptor = os.open(path, flags, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
