"""A World in a file, and back."""

import json
from typing import Any

import pytest
import yaml

from gpusharing.snapshots import file
from gpusharing.snapshots.file import SnapshotError
from gpusharing.snapshots.world import NODES, PODS, RESOURCES, World


def an_object(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **more}, "spec": {"text": "ä\n"}}


WORLD = World(
    minor=37,
    taken_at="2026-11-20T07:00:00Z",
    unread={"claims": "forbidden"},
    only_namespace={"pods": "ml"},
    served=("resource.k8s.io/v1",),
    **{one.field: [an_object(f"{one.plural}-1"), an_object(f"{one.plural}-2", namespace="ml")] for one in RESOURCES},
)


def test_what_is_written_is_read_again() -> None:
    assert file.loads(file.dumps(WORLD)) == WORLD
    assert file.loads(yaml.safe_dump(file.to_json(WORLD))) == WORLD


def test_an_object_is_one_line() -> None:
    lines = file.dumps(WORLD).splitlines()
    assert len([line for line in lines if '"spec"' in line]) == 2 * len(RESOURCES)


def test_what_only_the_api_server_uses_is_left_out() -> None:
    world = World(minor=37, taken_at="", nodes=[an_object("n", managedFields=[{"manager": "kubelet"}])])
    assert file.loads(file.dumps(world)).nodes == [an_object("n")]


def test_objects_are_found_by_name_and_namespace() -> None:
    found = WORLD.get(PODS, "pods-2", "ml")
    assert found is WORLD.pods[1]
    assert WORLD.get(PODS, "pods-2", "other") is None
    assert WORLD.get(NODES, "nodes-1") is WORLD.nodes[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "List"}, "not a snapshot"),
        ({"apiVersion": "v1"}, "not a snapshot"),
        ({"kubernetes": "new"}, "kubernetes: 'new'"),
        ({"objects": []}, "objects: not a map"),
        ({"objects": {"gpus": []}}, "objects.gpus: unknown"),
        ({"objects": {"nodes": [{"spec": {}}]}}, "objects.nodes: not a list of objects"),
    ],
)
def test_what_is_no_snapshot_is_refused_by_field(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        file.loads(json.dumps(file.to_json(WORLD) | change))


@pytest.mark.parametrize("text", ["", "[", "- 1", "a: : b", "1"])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(SnapshotError):
        file.loads(text)
