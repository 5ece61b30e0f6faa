"""`gpusharing export` reads files or a snapshot; tests/exporting has a cluster."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusharing.cli import exits
from gpusharing.cli.main import main
from gpusharing.snapshots import file
from gpusharing.snapshots.world import World
from harness.workloads import policy, time_slicing

QUARTERS = time_slicing("quarters", tenants={"namespaces": {"matchLabels": {"team": "a"}}})
MODELS = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "models", "labels": {"team": "a"}}}
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "all", "namespace": "models"},
    "spec": {
        "spec": {
            "devices": {
                "requests": [
                    {"name": "gpu", "exactly": {"deviceClassName": "quarters-timeslicing", "allocationMode": "All"}}
                ]
            }
        }
    },
}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "models"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "none"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}],
            }
        }
    },
}


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["export", *map(str, arguments)])
    return int(str(ended.value.code))


def written(path: Path, *objects: Any) -> Path:
    path.write_text(yaml.safe_dump_all(objects))
    return path


def snapshot(path: Path, **fields: Any) -> Path:
    path.write_text(file.dumps(World(minor=37, taken_at="2026-11-20T12:00:00Z", **fields)))
    return path


def names(text: str) -> list[str]:
    return [one["metadata"]["name"] for one in yaml.safe_load_all(text) if one and "metadata" in one]


def test_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = written(tmp_path / "all.yaml", QUARTERS, MODELS, TEMPLATE, JOB)
    assert run("kueue", "-f", found) == exits.OK
    out, err = capsys.readouterr()
    assert names(out) == ["gpus", "namespace-models", "gpus"]
    assert err.count("GSH1007") == 2  # the template and the job
    assert run("kueue", "-f", found, "--ignore", "gsh1007") == exits.OK
    assert "GSH1007" not in capsys.readouterr().err
    assert run("volcano", "-f", found) == exits.OK
    out, err = capsys.readouterr()
    assert names(out) == ["namespace-models"]
    assert "GSH1009" in err


def test_a_snapshot_is_as_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for given in (
        ("-f", written(tmp_path / "all.yaml", QUARTERS, MODELS, TEMPLATE)),
        ("--snapshot", snapshot(tmp_path / "s.json", policies=[QUARTERS], namespaces=[MODELS], templates=[TEMPLATE])),
    ):
        assert run("kueue", *given) == exits.OK
        outputs.append(capsys.readouterr())
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    ("part", "kinds"),
    [("configuration", ["Configuration"]), ("queues", ["ResourceFlavor", "ClusterQueue", "LocalQueue"])],
)
def test_parts(part: str, kinds: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = written(tmp_path / "all.yaml", QUARTERS, MODELS)
    assert run("kueue", "-f", found, "--part", part, "-o", "json") == exits.OK
    assert [one["kind"] for one in json.loads(capsys.readouterr().out)["items"]] == kinds


def test_without_the_right_to_read_namespaces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unread = {"namespaces": "forbidden", "templates": "forbidden"}
    assert run("kueue", "--snapshot", snapshot(tmp_path / "s.json", policies=[QUARTERS], unread=unread)) == exits.OK
    out, err = capsys.readouterr()
    assert names(out) == ["gpus", "policy-quarters"]
    assert err.count("GSH0101") == 2


def test_a_name_with_several_lines_is_a_comment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = {"metadata": {"name": "a\nevil: 1", "labels": {"team": "a"}}}
    assert run("volcano", "--snapshot", snapshot(tmp_path / "s.json", policies=[QUARTERS], namespaces=[hostile])) == 0
    assert yaml.safe_load(capsys.readouterr().out).keys() == {"apiVersion", "kind", "metadata", "spec"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"policies": ()}, "there is no SharingPolicy in"),
        ({"unread": {"policies": "forbidden"}}, "policies: forbidden"),
        ({"policies": [{"metadata": {"name": "hostile"}, "spec": {"offers": 7}}]}, "there is no SharingPolicy in"),
    ],
)
def test_nothing_to_export(fields: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("volcano", "--snapshot", snapshot(tmp_path / "s.json", **fields)) == exits.FAILED
    assert said in capsys.readouterr().err


def test_what_kueue_would_refuse_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = [policy(f"p{number:02}", offers={"exclusive": {}}) for number in range(17)]
    assert run("kueue", "-f", written(tmp_path / "all.yaml", *many)) == exits.FAILED
    assert "GSH1002" in capsys.readouterr().err
    wrong = written(tmp_path / "wrong.yaml", policy("p", offers={"exclusively": {}}))
    assert run("kueue", "-f", wrong) == exits.FAILED
    assert "wrong.yaml:" in capsys.readouterr().err
