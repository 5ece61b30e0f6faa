"""A snapshot of which objects stay lines says the same as any other."""

import json
from pathlib import Path

import pytest

from gpusharing.cli import exits
from gpusharing.cli.main import main
from gpusharing.snapshots import file, lines
from gpusharing.snapshots.file import SnapshotError
from gpusharing.snapshots.lines import Lines
from gpusharing.snapshots.world import RESOURCES
from snapshots.test_file import WORLD
from top.place import shared_fleet


def test_what_is_written_is_read_again() -> None:
    found = lines.loads(file.dumps(WORLD).encode())
    assert all(isinstance(found.of(one), Lines) for one in RESOURCES)
    assert {one.field: list(found.of(one)) for one in RESOURCES} == {
        one.field: list(WORLD.of(one)) for one in RESOURCES
    }
    assert (found.minor, found.taken_at) == (WORLD.minor, WORLD.taken_at)
    assert (found.unread, found.only_namespace, found.served) == (WORLD.unread, WORLD.only_namespace, WORLD.served)
    assert found.nodes[0] == WORLD.nodes[0]
    assert found.nodes[0:2] == list(WORLD.nodes)


@pytest.mark.parametrize("indent", [None, 1, 4])
def test_what_others_have_written_is_read_as_well(indent: int | None) -> None:
    text = json.dumps(file.to_json(WORLD), indent=indent)
    assert lines.loads(text.encode()) == WORLD


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[",
        "[" * 100_000,
        '{"a": ' * 100_000 + '\n  "objects": {',
        '{\n  "objects": {\n',
        '  "objects": {\n    "nodes": [\n',
    ],
)
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(SnapshotError):
        lines.loads(text.encode())


def test_unknown_kinds_are_refused() -> None:
    text = file.dumps(WORLD).replace('    "nodes": [', '    "houses": [')
    with pytest.raises(SnapshotError, match="houses: unknown"):
        lines.loads(text.encode())


@pytest.mark.parametrize(
    "line",
    ["{oops", "{}", '{"metadata":{"name":"x"},"a":' + "[" * 3000 + "]" * 3000 + "}", '{"a":' + "9" * 6000 + "}"],
    ids=["no JSON", "no name", "deep", "long"],
)
@pytest.mark.parametrize("command", ["top", "explain node node-0"])
def test_a_line_that_cannot_be_read_is_an_error_of_the_file(
    line: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines are looked at when they are needed."""
    head, start, rest = file.dumps(shared_fleet().world()).partition('"claims": [\n')
    (tmp_path / "file").write_text(f"{head}{start}      {line},\n{rest}")
    world = lines.loads((tmp_path / "file").read_bytes())
    with pytest.raises(SnapshotError, match="an object"):
        list(world.claims)
    with pytest.raises(SnapshotError, match="an object"):
        world.claims[:1]
    with pytest.raises(SystemExit) as end:
        main([*command.split(), "--snapshot", str(tmp_path / "file")])
    assert end.value.code == exits.FAILED
    assert capsys.readouterr().err.startswith("error: an object")
