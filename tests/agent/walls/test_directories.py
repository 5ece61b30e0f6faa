"""Walls on disk, and what our hook has noted there."""

from pathlib import Path

import pytest

from agent.walls.test_wall import wall
from gpusharing.agent.walls.directories import NotedContainer, WallDirectories
from gpusharing.agent.walls.wall import file_content

UID = "3f1c8f0e"


@pytest.fixture
def walls(tmp_path: Path) -> WallDirectories:
    return WallDirectories(tmp_path / "walls")


def test_written_once_mended_and_deleted(walls: WallDirectories) -> None:
    directory = walls.write(UID, 0, wall())
    assert walls.write(UID, 1, wall()) == walls.path(UID, 1) != directory
    assert [path.name for path in directory.iterdir()] == ["wall"]
    before = (directory / "wall").stat().st_ino
    walls.write(UID, 0, wall())
    assert (directory / "wall").stat().st_ino == before
    (directory / "wall").write_text("half")
    walls.write(UID, 0, wall())
    assert (directory / "wall").read_bytes() == file_content(wall())
    assert walls.claims() == [UID]
    for _ in range(2):
        walls.delete(UID)
        assert walls.claims() == []


def test_nobody_else_reads_it(walls: WallDirectories, tmp_path: Path) -> None:
    walls.write(UID, 0, wall())
    assert (tmp_path / "walls").stat().st_mode & 0o777 == 0o700


def test_nothing_is_noted_yet(walls: WallDirectories) -> None:
    assert walls.containers(UID, 0) == []
    assert walls.failure(UID, 0) is None
    walls.write(UID, 0, wall())
    assert walls.containers(UID, 0) == []


def test_what_is_noted(walls: WallDirectories) -> None:
    directory = walls.write(UID, 0, wall())
    (directory / "containers").mkdir()
    for name, cgroup in {"a": "/kubepods.slice/a", "b": "/pods/b \udcff", ".c": "/half"}.items():
        (directory / "containers" / name).write_text(cgroup, errors="surrogateescape")
    (directory / "failure").write_text("it burns")
    found = walls.containers(UID, 0)
    assert found == [NotedContainer("a", "/kubepods.slice/a"), NotedContainer("b", "/pods/b \udcff")]
    assert found[0].seen_from(Path("/sys/fs/cgroup")) == Path("/sys/fs/cgroup/kubepods.slice/a")
    assert walls.failure(UID, 0) == "it burns"
