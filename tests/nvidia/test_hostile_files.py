"""Everything that a container can put where a file or a directory of ours was."""

import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpusharing.nvidia import hostile_files
from gpusharing.nvidia.hostile_files import read_tail, remove, set_aside, steps_of_removal
from harness.mounts import unmount_below
from harness.privileges import need_root_of_machine

DEPTH = 1500


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "place"
    directory.mkdir()
    yield directory
    # pytest itself would recurse.
    remove(directory)


@pytest.fixture
def bystander(tmp_path: Path) -> Path:
    """Of somebody else, with links to it from where a container is."""
    path = tmp_path / "bystander"
    path.mkdir()
    (path / "file").write_text("mine")
    return path


def deep(path: Path) -> None:
    path.mkdir()
    here = os.open(path, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir("a", dir_fd=here)
        below = os.open("a", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def many(path: Path) -> None:
    path.mkdir()
    for number in range(2000):
        (path / str(number)).touch()


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def device(kind: int, number: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        need_root_of_machine("make device nodes")
        os.mknod(path, kind | 0o666, number)

    return make


NASTY: dict[str, Callable[[Path], None]] = {
    "FIFO": os.mkfifo,
    "device": device(stat.S_IFCHR, os.makedev(1, 5)),
    "block device": device(stat.S_IFBLK, os.makedev(7, 99)),
    "socket": bound,
    "directory": Path.mkdir,
    "deep tree": deep,
    "many files": many,
    "link to a file": link("../bystander/file"),
    "link to a directory": link("../bystander"),
    "link to the root": link("/"),
    "link to itself": link("nasty"),
    "link to nothing": link("nowhere"),
    "link to a terminal": link("/dev/tty"),
    "link to /proc": link("/proc/self/mem"),
}


@pytest.mark.parametrize("make", NASTY.values(), ids=NASTY)
def test_only_regular_files_are_read(place: Path, bystander: Path, make: Callable[[Path], None]) -> None:
    make(place / "nasty")
    with pytest.raises(OSError, match=r"Errno|is not a regular file"):
        read_tail(place, "nasty", most=10)
    # Nor through a link in place of the directory.
    (place.parent / "link").symlink_to(bystander)
    with pytest.raises(OSError, match=r"Errno|is not a regular file"):
        read_tail(place.parent / "link", "file", most=10)


def test_no_more_than_the_end_is_read(place: Path) -> None:
    sparse(place / "sparse")
    assert read_tail(place, "sparse", most=100) == bytes(100)
    (place / "short").write_text("short")
    assert read_tail(place, "short", most=100) == b"short"


@pytest.mark.parametrize("make", [*NASTY.values(), sparse], ids=[*NASTY, "sparse"])
@pytest.mark.parametrize("within", [False, True])
def test_everything_is_removed_and_nothing_else(
    place: Path, bystander: Path, make: Callable[[Path], None], within: bool
) -> None:
    make(place / "nasty")
    remove(place if within else place / "nasty")
    assert not os.path.lexists(place / "nasty")
    assert (bystander / "file").read_text() == "mine"
    remove(place)
    remove(place)


def test_removal_goes_on_where_it_stopped(place: Path) -> None:
    deep(place / "deep")
    steps = steps_of_removal(place)
    for _ in range(DEPTH // 2):
        next(steps)
    steps.close()
    remove(place)
    assert not place.exists()


@pytest.mark.parametrize("where", ["mount", "below/mount"])
def test_others_mounts_are_left(place: Path, bystander: Path, where: str) -> None:
    mounted = place / where
    mounted.mkdir(parents=True)
    subprocess.run(["mount", "--bind", bystander, mounted], check=True)
    try:
        with pytest.raises(OSError, match=r"Errno|is not a regular file"):
            remove(place)
        assert (bystander / "file").read_text() == "mine"
    finally:
        unmount_below(place)


def test_links_that_come_while_it_works_are_not_followed(place: Path, bystander: Path) -> None:
    """A directory is exchanged for a link between the look at it and its turn."""
    for number in range(50):
        (place / str(number)).mkdir()
    for _ in steps_of_removal(place):
        for path in place.iterdir():
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
                path.symlink_to(bystander)
                break
    assert (bystander / "file").read_text() == "mine"


def test_a_name_is_free_at_once(place: Path) -> None:
    many(place / "nasty")
    aside = set_aside(place / "nasty")
    assert not (place / "nasty").exists()
    assert aside is not None
    assert hostile_files.asides(place) == [aside]
    remove(aside)
    assert set_aside(place / "nasty") is None
    assert shutil.disk_usage(place)
