"""Cells of tables: ages, paths in objects, and pods as people know them."""

from typing import Any

import pytest

from gpusharing.demo.apiserver.cells import duration
from gpusharing.demo.apiserver.kinds import Kinds
from gpusharing.demo.apiserver.tables import json_path, table

KINDS = {kind.resource: kind for kind in Kinds()}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"), (10799, "179m"), (10800, "3h"),
        (11700, "3h15m"), (28800, "8h"), (172799, "47h"), (172800, "2d"), (180000, "2d2h"), (700000, "8d"),
        (31536000, "365d"), (63072000, "2y"), (-5, "<invalid>"),
    ],
)  # fmt: skip
def test_ages(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


VALUE = {"a": {"b": [1, 2]}, "c": [{"type": "Ready", "status": "True"}, {"type": "Other"}], "x.y": 3, "n": {"m-o": 4}}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".a.b", [[1, 2]]), (".a.b[0]", [1]), (".a.b[*]", [1, 2]), (".a.b[7]", []), (".none.b", []),
        (".c[?(@.type=='Ready')].status", ["True"]), ('.c[?(@.type=="Other")].status', []),
        (".c[*].type", ["Ready", "Other"]),
        (r".x\.y", [3]), (".n['m-o']", [4]), (".n.m-o", [4]), (".a..b", []), (".a[?(@.b>1)]", []),
    ],
)  # fmt: skip
def test_paths(path: str, found: list[Any]) -> None:
    assert json_path(VALUE, path) == found


def pod(status: Any, **metadata: str) -> Any:
    return {"metadata": {"name": "p", **metadata}, "spec": {"containers": [{}, {}]}, "status": status}


@pytest.mark.parametrize(
    ("value", "cells"),
    [
        (pod({}), ["0/2", "<unknown>", "0"]),
        (pod({"phase": "Pending"}), ["0/2", "Pending", "0"]),
        (
            pod({"phase": "Running", "containerStatuses": [{"ready": True, "restartCount": 2}, {"ready": False}]}),
            ["1/2", "Running", "2"],
        ),
        (
            pod({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}),
            ["0/2", "ContainerCreating", "0"],
        ),
        (
            pod({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 2}}}]}),
            ["0/2", "ExitCode:2", "0"],
        ),
        (pod({"phase": "Running"}, deletionTimestamp="2026-01-01T00:00:00Z"), ["0/2", "Terminating", "0"]),
        (pod({"phase": "Failed", "reason": "Evicted"}), ["0/2", "Evicted", "0"]),
    ],
)
def test_pods(value: Any, cells: list[str]) -> None:
    (row,) = table(KINDS["pods"], [value], {}, "None")["rows"]
    assert row["cells"][1:4] == cells


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS.values() if "list" in kind.verbs], ids=lambda kind: kind.resource
)
def test_each_kind_has_as_many_cells_as_columns(kind: Any) -> None:
    value = {
        "metadata": {"name": "a"},
        "spec": {
            "scope": "Cluster", "versions": [], "group": "g", "names": {"kind": "K"}, "taint": {},
            "template": {"spec": {}}, "policyName": "p", "driver": "d",
        },
        "roleRef": {"kind": "Role", "name": "r"},
    }  # fmt: skip
    shown = table(kind, [value], {}, "Object")
    assert len(shown["rows"][0]["cells"]) == len(shown["columnDefinitions"]) > 1
    assert all(column["name"] for column in shown["columnDefinitions"])
