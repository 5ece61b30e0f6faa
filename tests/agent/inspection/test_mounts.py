"""Directories of a node as a container has them: mounted by the kernel, each at another place."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpusharing.agent.inspection.mounts import MountedDirectories
from gpusharing.agent.problems import DirectoryGoneError
from harness.mounts import mount, unmount_below


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """Its directory."""
    directory = tmp_path / "of the node" / "run" / "cdi"
    directory.mkdir(parents=True)
    return directory


@pytest.fixture
def mounted(tmp_path: Path, node: Path) -> Iterator[Path]:
    place = tmp_path / "in the container" / "cdi"
    place.mkdir(parents=True)
    mount("--bind", node, place)
    yield place
    unmount_below(place)


def move(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))


def move_what_it_is_in(directory: Path) -> None:
    move(directory.parent)


def move_and_make_anew(directory: Path) -> None:
    move(directory)
    directory.mkdir()


@pytest.mark.parametrize("lose", [shutil.rmtree, move, move_what_it_is_in, move_and_make_anew])
@pytest.mark.parametrize("below", ["", "plugins"])
def test_one_that_the_node_has_no_more(node: Path, mounted: Path, lose: Callable[[Path], None], below: str) -> None:
    directories = MountedDirectories([mounted / below])
    directories.check()
    lose(node)
    with pytest.raises(DirectoryGoneError, match=f"mounted at {mounted} was removed or moved"):
        directories.check()


def test_all_are_named(tmp_path: Path, node: Path, mounted: Path) -> None:
    other = tmp_path / "in the container" / "bin"
    other.mkdir()
    mount("--bind", node, other)
    try:
        directories = MountedDirectories([mounted, other])
        shutil.rmtree(node)
        with pytest.raises(DirectoryGoneError, match=f"mounted at {other} and {mounted} was"):
            directories.check()
    finally:
        unmount_below(other)


def test_what_is_done_to_mounts_here_the_agent_sees_as_well(node: Path, mounted: Path) -> None:
    directories = MountedDirectories([mounted])
    mount("-t", "tmpfs", "tmpfs", mounted)
    directories.check()
    unmount_below(mounted)
    directories.check()
    shutil.rmtree(node)
    directories.check()


def test_one_that_is_not_mounted(node: Path) -> None:
    directories = MountedDirectories([node])
    shutil.rmtree(node.parent)
    directories.check()
