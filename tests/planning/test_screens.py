"""What people see of a plan at 80 and at 160 columns, and in merge requests: golden files, to be looked at.

`GPUSHARING_WRITE_SCREENS=1 pytest tests/planning/test_screens.py` writes them.
"""

import io
import json
import os
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from gpusharing.cli.main import main
from gpusharing.snapshots import file
from planning.fleets import TEAM, Fleet, mps, policy, time_slicing

SCREENS: Final = Path(__file__).parent / "screens"
SHARED: Final = policy("shared", offers=time_slicing(4))
TENANTS: Final = {"namespaces": {"matchLabels": TEAM}, "quota": {"mps": 3}}


class Scene(NamedTuple):
    fleet: Callable[[], Fleet]
    policies: Sequence[Mapping[str, Any]]
    status: int
    """With --detailed-exitcode."""


def in_use() -> Fleet:
    fleet = Fleet(nodes=3, policies=[SHARED])
    fleet.hold("gpu-0-timeslicing", name="train-7", namespace="search")
    fleet.hold("gpu-0-timeslicing", node="node-2", name="notebook")
    fleet.wait("mps.gpu.nvidia.com", name="batch-1")
    fleet.wait("mps.gpu.nvidia.com", name="batch-2")
    return fleet


SCENES: Final = {
    "nothing": Scene(in_use, [SHARED], 0),
    "more-clients": Scene(in_use, [policy("shared", offers=time_slicing(8))], 2),
    "another-mode": Scene(in_use, [policy("shared", offers=mps())], 3),
    "evicts": Scene(
        in_use,
        [policy("shared", offers=mps(), rollout={"disruption": "Evict", "maxUnavailable": 1}, tenants=TENANTS)],
        3,
    ),
    "not-accepted": Scene(
        in_use, [policy("new", nodes={"matchLabels": {"pool": "none"}}), policy("other", rollout={"paused": True})], 2
    ),
}


def run(tmp_path: Path, name: str, *options: str) -> tuple[int, str]:
    fleet, policies, _ = SCENES[name]
    snapshot, manifests = tmp_path / "snapshot.json", tmp_path / "policies"
    snapshot.write_text(file.dumps(fleet().world()))
    manifests.mkdir(exist_ok=True)
    for one in policies:
        body = {**one, "metadata": {"name": one["metadata"]["name"]}}
        (manifests / f"{one['metadata']['name']}.yaml").write_text(json.dumps(body))
    out = io.StringIO()
    with redirect_stdout(out), pytest.raises(SystemExit) as ended:
        main(["plan", "-f", str(manifests), "--snapshot", str(snapshot), *options])
    return int(str(ended.value.code)), out.getvalue()


def golden(path: Path, text: str) -> str:
    if os.environ.get("GPUSHARING_WRITE_SCREENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return path.read_text()


@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize("name", SCENES)
def test_screens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    status, screen = run(tmp_path, name)
    assert status == 0
    assert screen == golden(SCREENS / f"{name}-{columns}.txt", screen)
    assert max(map(len, screen.splitlines())) <= columns


@pytest.mark.parametrize("name", SCENES)
def test_markdown(tmp_path: Path, name: str) -> None:
    _, text = run(tmp_path, name, "-o", "markdown")
    assert text == golden(SCREENS / f"{name}.md", text)


@pytest.mark.parametrize("name", SCENES)
def test_exit_codes(tmp_path: Path, name: str) -> None:
    assert run(tmp_path, name, "--detailed-exitcode")[0] == SCENES[name].status
    value = json.loads(run(tmp_path, name, "-o", "json")[1])
    assert {0: (False, False), 2: (True, False), 3: (True, True)}[SCENES[name].status] == (
        value["changes"],
        value["disturbs"],
    )


def test_json_says_what_happens_to_each_gpu(tmp_path: Path) -> None:
    value = json.loads(run(tmp_path, "another-mode", "-o", "json")[1])
    gpus = {f"{node['node']}/{gpu['slot']}": gpu for node in value["nodes"] for gpu in node["gpus"]}
    assert len(gpus) == 6
    assert (gpus["node-0/0"]["effect"], gpus["node-0/0"]["claims"]) == ("Waits", ["search/train-7"])
    assert gpus["node-0/0"]["from"]["offers"]["timeSlicing"]["maxClients"] == 4
    assert gpus["node-0/0"]["to"]["offers"]["mps"]["maxClients"] == 4
    assert [one["name"] for one in value["starting"]] == ["batch-1"]


def test_junit_fails_for_each_finding(tmp_path: Path) -> None:
    suite = ET.fromstring(run(tmp_path, "evicts", "-o", "junit")[1])[0]  # noqa: S314 (our own)
    failures = [case for case in suite if case.find("failure") is not None]
    assert suite.get("failures") == str(len(failures)) == "2"


def test_github_annotates_findings(tmp_path: Path) -> None:
    lines = run(tmp_path, "evicts", "-o", "github")[1].splitlines()
    assert [line.partition(" ")[0] for line in lines[1:]] == ["::warning", "::warning"]


def test_findings_can_be_ignored(tmp_path: Path) -> None:
    value = json.loads(run(tmp_path, "evicts", "-o", "json", "--ignore", "gsh0705")[1])
    assert [one["code"] for one in value["findings"]] == ["GSH0706"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: SharingPolicy", "no SharingPolicy"),
        ("a: [", "The file cannot be read"),
        (json.dumps(policy("bad", offers={})), "p.yaml:1:"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str) -> None:
    manifest, snapshot = tmp_path / "p.yaml", tmp_path / "s.json"
    manifest.write_text(text)
    snapshot.write_text(file.dumps(Fleet().world()))
    with pytest.raises(SystemExit) as ended:
        main(["plan", "-f", str(manifest), "--snapshot", str(snapshot)])
    assert ended.value.code == 1
    assert message in capsys.readouterr().err


def test_a_plan_without_what_it_needs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = replace(Fleet().world(), slices=(), unread={"slices": "resourceslices is forbidden"})
    manifest, snapshot = tmp_path / "p.yaml", tmp_path / "s.json"
    manifest.write_text(json.dumps({**SHARED, "metadata": {"name": "shared"}}))
    snapshot.write_text(file.dumps(world))
    with pytest.raises(SystemExit) as ended:
        main(["plan", "-f", str(manifest), "--snapshot", str(snapshot)])
    assert ended.value.code == 1
    assert "slices: resourceslices is forbidden; a plan needs nodes" in capsys.readouterr().err


def test_every_screen_has_its_scene() -> None:
    names = {path.stem.removesuffix("-80").removesuffix("-160") for path in SCREENS.iterdir()}
    assert names == set(SCENES)
