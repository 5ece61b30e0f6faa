"""gpusharing forecast: its options, and what it refuses."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gpusharing.cli.main import main

POLICY = """\
apiVersion: gpusharing.dev/v1alpha1
kind: SharingPolicy
metadata: {name: shared}
spec:
  nodes: {matchLabels: {pool: a}}
  offers: {timeSlicing: {maxClients: 4, memory: {default: 25%}}}
"""


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    (tmp_path / "policy.yaml").write_text(f"kind: Namespace\n---\n{POLICY}")
    return tmp_path


def run(*arguments: str | Path) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main(["forecast", *map(str, arguments)])
    return ended.value.code


def devices(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    items = json.loads(capsys.readouterr().out)["items"]
    return {device["name"]: device for item in items for device in item["spec"].get("devices", ())}


@pytest.mark.parametrize(
    ("labels", "driver", "expected"),
    [
        ("pool=a", "615", {"gpu-0-timeslicing"}),
        # The driver cannot limit memory.
        ("pool=a", "580", set()),
        ("pool=b,zone=", "615", {"gpu-0"}),
    ],
)
def test_labels_and_drivers(
    policies: Path, capsys: pytest.CaptureFixture[str], labels: str, driver: str, expected: set[str]
) -> None:
    assert run("--gpus", "L4", "--labels", labels, "--driver", driver, "-f", policies, "-o", "json") == 0
    assert devices(capsys).keys() == expected


def test_an_offer_that_is_not_possible_is_said(policies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--gpus", "L4:2", "--labels", "pool=a", "-f", policies) == 0
    told = capsys.readouterr().err
    assert told.startswith("gpu-0: policy shared: TimeSlicing is not offered: ")
    assert told.count("\n") == 1


def test_yaml_and_json_say_the_same(policies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--gpus", "H100-80GB:2", "-f", policies)
    run(*arguments)
    as_yaml = list(yaml.safe_load_all(capsys.readouterr().out))
    run(*arguments, "-o", "json")
    assert json.loads(capsys.readouterr().out)["items"] == as_yaml


@pytest.mark.parametrize("menus", [0, 1, 2])
def test_full_menus(tmp_path: Path, capsys: pytest.CaptureFixture[str], menus: int) -> None:
    spec = {"offers": {"exclusive": {}, "timeSlicing": {"maxClients": 2}}}
    body = {"apiVersion": "gpusharing.dev/v1alpha1", "kind": "SharingPolicy", "metadata": {"name": "p"}, "spec": spec}
    (tmp_path / "p.json").write_text(json.dumps(body))
    assert run("--gpus", "L4:3", "-f", tmp_path, "--full-menus", str(menus), "-o", "json") == 0
    assert sum("timeslicing" in name for name in devices(capsys)) == menus


MANY: Final = "\n".join(
    ["a0: &a0 [x]", *(f"a{one}: &a{one} [{', '.join(10 * [f'*a{one - 1}'])}]" for one in range(1, 9))]
)
"""Of a few lines."""


@pytest.mark.parametrize(
    ("gpus", "text", "problem"),
    [
        ("L5", "", "unknown GPU model 'L5'"),
        ("L4", POLICY.replace("maxClients: 4", "maxClients: 1"), "spec.offers.timeSlicing.maxClients"),
        ("L4", POLICY.replace("v1alpha1", "v2"), "must have apiVersion gpusharing.dev/v1alpha1"),
        ("L4", f"{POLICY}---\n{POLICY}", "remove one"),
        ("L4", POLICY.replace("offers", "gpus: {selectors: [{cel: {expression: '1 +'}}]}\n  offers"), "is not valid"),
        ("L4", "a: [", "cannot be read: "),
        ("L4", "[" * 1000, "nested more than 100 levels deep"),
        ("L4", MANY, "more than 1,000,000 values, with all aliases"),
        ("L4", POLICY.replace("metadata: {name: shared}", "metadata: []"), "SharingPolicy: metadata"),
    ],
)
def test_what_is_wrong_is_one_message(tmp_path: Path, gpus: str, text: str, problem: str) -> None:
    (tmp_path / "policy.yaml").write_text(text)
    message = run("--gpus", gpus, "-f", tmp_path)
    assert str(message).startswith("gpusharing: ")
    assert problem in str(message)


@pytest.mark.parametrize(
    ("content", "problem"), [(b"#" * (16 * 1024**2 + 1), "larger than 16 MiB"), (b"a: \xff", "not UTF-8")]
)
def test_files_that_are_not_read(tmp_path: Path, content: bytes, problem: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_bytes(content)
    assert run("--gpus", "L4", "-f", file) == f"gpusharing: {file}: {problem}"


def test_labels_that_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--gpus", "L4", "--labels", "pool") == 2
    assert "pool is not a label" in capsys.readouterr().err
