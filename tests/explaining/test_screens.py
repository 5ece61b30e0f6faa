"""What people see at 80 and at 160 columns: golden files, to be looked at when they change.

`GPUSHARING_WRITE_SCREENS=1 pytest tests/explaining/test_screens.py` writes them.
"""

import io
import json
import os
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml

from explaining.scenes import SCENES
from gpusharing.cli.main import main
from gpusharing.snapshots import file

SCREENS = Path(__file__).parent / "screens"


def run(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(str(ended.value.code)), out.getvalue()


@pytest.fixture
def snapshot(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "snapshot.json"
    path.write_text(file.dumps(SCENES[request.param][0]()))
    return path


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize(("snapshot", "name"), [(name, name) for name in SCENES], indirect=["snapshot"])
def test_screens(monkeypatch: pytest.MonkeyPatch, snapshot: Path, name: str, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    _, (kind, what), expected = SCENES[name]
    status, screen = run("explain", kind, what, "-n", "ml", "--snapshot", str(snapshot))
    golden = SCREENS / f"{name}-{columns}.txt"
    if os.environ.get("GPUSHARING_WRITE_SCREENS"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(screen)
    assert screen == golden.read_text()
    assert status == expected
    assert max(map(len, screen.splitlines())) <= columns


@pytest.mark.parametrize(("snapshot", "name"), [(name, name) for name in SCENES], indirect=["snapshot"])
def test_json_and_yaml_say_the_same(snapshot: Path, name: str) -> None:
    _, (kind, what), expected = SCENES[name]
    found: list[Any] = []
    for format_, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        status, text = run("explain", f"{kind}/{what}", "-n", "ml", "--snapshot", str(snapshot), "-o", format_)
        assert status == expected
        found.append(read(text))
    assert found[0] == found[1]
    assert found[0]["state"] == {0: "Runs", 3: "Waits", 4: "Never"}[expected]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pod"], "which pod? gpusharing explain pod NAME"),
        (["house", "x"], "house cannot be explained"),
        (["pod", "none"], "the snapshot has no Pod none in namespace ml"),
        (["gpu", "node-9/gpu-0"], "there is no GPU node-9/gpu-0"),
        (["policy", "none"], "there is no SharingPolicy none"),
    ],
)
@pytest.mark.parametrize("snapshot", ["running"], indirect=True)
def test_errors(capsys: pytest.CaptureFixture[str], snapshot: Path, arguments: list[str], message: str) -> None:
    assert run("explain", *arguments, "-n", "ml", "--snapshot", str(snapshot)) == (1, "")
    assert message in capsys.readouterr().err


def test_every_screen_has_its_scene() -> None:
    assert {path.stem.rpartition("-")[0] for path in SCREENS.iterdir()} == set(SCENES)
