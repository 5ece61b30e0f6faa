"""What people see at 80 and at 200 columns: golden files, to be looked at when they change.

`GPUSHARING_WRITE_SCREENS=1 pytest tests/top/test_screens.py` writes them.
"""

import csv
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Group

from gpusharing.api.names import Sharing
from gpusharing.cli.main import main
from gpusharing.cli.output import Screen
from gpusharing.cli.top.amounts import memory
from gpusharing.cli.top.bars import WIDTH, bar
from gpusharing.cli.top.screen import console, drawn
from gpusharing.occupancy import document
from gpusharing.occupancy.filters import part_of
from gpusharing.occupancy.fleet import Fleet, GpuUse, Holder
from gpusharing.occupancy.groups import GROUPS
from gpusharing.snapshots import file
from top.place import shared_fleet
from top.scenes import SCENES

SCREENS: Final = Path(__file__).parent / "screens"
FLEETS: Final = {name: make() for name, make in SCENES.items()}
CASES: Final = [(name, group) for name in SCENES for group in (GROUPS if name == "measured" else GROUPS[:1])]


def text_of(fleet: Fleet, group: str = "gpu", *, columns: int, height: int | None = None, colours: bool = False) -> str:
    screen, out = Screen(columns, colours), io.StringIO()
    with redirect_stdout(out):
        console(screen).print(Group(*drawn(fleet, group, screen, height=height)))
    return out.getvalue()


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize(("name", "group"), CASES)
def test_screens(name: str, group: str, columns: int) -> None:
    screen = text_of(FLEETS[name], group, columns=columns)
    golden = SCREENS / f"{name}{'' if group == 'gpu' else f'-{group}'}-{columns}.txt"
    if os.environ.get("GPUSHARING_WRITE_SCREENS"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(screen)
    assert screen == golden.read_text()


@given(st.sampled_from(sorted(FLEETS)), st.sampled_from(GROUPS), st.integers(40, 220), st.integers(4, 40))
def test_nothing_is_wider_or_higher_than_the_terminal(name: str, group: str, columns: int, height: int) -> None:
    lines = text_of(FLEETS[name], group, columns=columns, height=height).splitlines()
    assert len(lines) <= height
    assert max(map(cell_len, lines), default=0) <= columns


def test_names_cannot_draw() -> None:
    for columns in (80, 200):
        shown = text_of(FLEETS["sick"], columns=columns)
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert "[31mevil" in text_of(FLEETS["sick"], columns=200), "markup is shown as it is"


def test_colours_are_for_terminals() -> None:
    assert "\x1b[36m" in text_of(FLEETS["cluster"], columns=80, colours=True)
    assert "\x1b" not in text_of(FLEETS["cluster"], columns=80)


# -------------------------------------------------------------------------------------------------------------- bars


def holder(ratio: float) -> Holder:
    return Holder(namespace="ml", claim="c", uid=str(ratio), device="gpu-0-mps", mode=Sharing.MPS, ratio=ratio)


@pytest.mark.parametrize(
    ("ratios", "hidden", "total", "expected"),
    [
        pytest.param([], 0, 0.0, "░░░░░░░░", id="idle"),
        pytest.param([1.0], 0, 1.0, "████████", id="whole"),
        pytest.param([0.5, 0.25], 0, 0.75, "████▓▓░░", id="two"),
        pytest.param([0.001], 0, 0.001, "█░░░░░░░", id="a small one is seen"),
        pytest.param([0.01] * 3, 0, 0.03, "█▓█░░░░░", id="several small ones"),
        pytest.param([0.25], 1, 0.75, "██▒▒▒▒░░", id="a hidden one"),
        pytest.param([], 2, 0.25, "▒▒░░░░░░", id="only hidden ones"),
        pytest.param([1 / 60] * 60, 0, 1.0, "█▓█▓█▓█▓", id="more than cells"),
    ],
)
def test_bars(ratios: list[float], hidden: int, total: float, expected: str) -> None:
    gpu = GpuUse(
        node="n", slot=0, ratio=total, holders=tuple(map(holder, ratios)), hidden_claims=tuple(map(str, range(hidden)))
    )
    assert bar(gpu) == expected
    assert len(expected) == WIDTH


# ------------------------------------------------------------------------------------------------------ other formats


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("top") / "snapshot.json"
    path.write_text(file.dumps(shared_fleet().world()))
    return path


def run(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(["top", *arguments])
    return int(str(ended.value.code)), out.getvalue()


def test_all_formats_say_the_same(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found: dict[str, Any] = {}
    for format_, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        status, text = run("--snapshot", str(snapshot), "-o", format_)
        assert status == 0
        found[format_] = read(text)
    assert found["json"] == found["yaml"] == document.to_json(FLEETS["cluster"])
    rows = list(csv.DictReader(io.StringIO(run("--snapshot", str(snapshot), "-o", "csv")[1])))
    gpus = [gpu for node in found["json"]["nodes"] for gpu in node["gpus"]]
    assert [row["uuid"] for row in rows] == [gpu["uuid"] for gpu in gpus]
    assert rows[0]["claims"] == "ml/train-0 vision/camera-0"
    assert run("--snapshot", str(snapshot)) == (0, (SCREENS / "cluster-80.txt").read_text())


@pytest.mark.parametrize("group", GROUPS[1:])
def test_sums_as_csv(snapshot: Path, group: str) -> None:
    rows = list(csv.DictReader(io.StringIO(run("--snapshot", str(snapshot), "-o", "csv", "-g", group)[1])))
    assert tuple(rows[0]) == document.USE
    assert sum(float(row["ratio"]) for row in rows) == pytest.approx(FLEETS["cluster"].total.ratio, abs=0.001)


@pytest.mark.parametrize(
    ("arguments", "gpus"),
    [
        ([], 8),
        (["--node", "node-1"], 4),
        (["--node", "node-9"], 0),
        (["--policy", "all"], 8),
        (["--policy", "none"], 0),
        (["-n", "ml"], 2),
        (["-n", "ml", "--node", "node-1"], 0),
        (["--idle"], 4),
        (["--idle", "--node", "node-0"], 0),
    ],
)
def test_filters(snapshot: Path, arguments: list[str], gpus: int) -> None:
    found = json.loads(run("--snapshot", str(snapshot), "-o", "json", *arguments)[1])
    assert found["total"]["gpus"] == gpus
    assert sum(len(node["gpus"]) for node in found["nodes"]) == gpus
    assert all(node["gpus"] for node in found["nodes"])


def test_idle_is_also_who_does_nothing() -> None:
    fleet = FLEETS["measured"]
    idle = [gpu for gpu in part_of(fleet, idle=True).gpus if not gpu.is_idle]
    assert [(gpu.name, gpu.utilization) for gpu in idle] == [("gpu-1", 0.02)]


def test_a_reader_that_has_seen_enough_is_no_error(snapshot: Path) -> None:
    command = f"{sys.executable} -m gpusharing top --snapshot {snapshot} -o json | head -c 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("{", "")


@pytest.mark.parametrize(
    ("mebibytes", "text"),
    [(0, "0Gi"), (512, "0.5Gi"), (1024, "1Gi"), (5000, "4.9Gi"), (81_559, "80Gi"), (8000 * 81_559, "622Ti")],
)
def test_amounts(mebibytes: int, text: str) -> None:
    assert memory(mebibytes) == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--watch", "-o", "json"], "--watch draws a table of a cluster"),
        (["--watch", "--snapshot", "x"], "--watch draws a table of a cluster"),
        (["--prometheus", "http://x", "--snapshot", "x"], "leave it out with --snapshot"),
        (["--snapshot", "/nowhere"], "/nowhere: No such file"),
        (["--kubeconfig", "/nowhere"], "no kubeconfig at /nowhere"),
    ],
)
def test_errors(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert run(*arguments) == (1, "")
    assert message in capsys.readouterr().err
