"""One answer for nodes that are alike is the answer for each of them, in random clusters."""

from random import Random
from typing import Any

import pytest

from allocating import pods
from allocating.worlds import World as Random_World
from allocating.worlds import world
from gpusharing.core.allocate.allocation import OnNode
from gpusharing.core.allocate.requests import Claim, read_claim
from gpusharing.explaining import asking
from gpusharing.explaining.scene import Scene
from gpusharing.snapshots.world import World

SEED = 11
COPIES = 3


def many(there: Random_World) -> World:
    """Its nodes, and as many again with the same devices under other names."""
    nodes: list[Any] = []
    slices: list[Any] = []
    claims: list[Any] = []
    for copy in range(COPIES):
        names = {node["metadata"]["name"] for node in there.nodes}

        def renamed(value: Any, copy: int = copy, names: frozenset[str] = frozenset(names)) -> Any:
            match value:
                case dict():
                    return {key: renamed(item) for key, item in value.items()}
                case list():
                    return [renamed(item) for item in value]
                case str() if value.partition("/")[0] in names:
                    head, slash, rest = value.partition("/")
                    return f"{head}-{copy}{slash}{rest}"
                case str() if value.startswith("GPU-"):
                    return f"{value}-{copy}"
            return value

        nodes += [renamed(node) for node in there.nodes]
        of_nodes = [one for one in there.slices if copy == 0 or one["spec"].get("nodeName")]
        slices += [
            {"metadata": {"name": f"{one['metadata']['name']}-{copy}"}, "spec": renamed(one["spec"])}
            for one in of_nodes
        ]
        for name, allocated in there.allocated.items():
            results = [renamed(one) for one in allocated]
            if copy == 0 or any(one["pool"].partition("/")[0].endswith(f"-{copy}") for one in results):
                claims.append(
                    {
                        "metadata": {"name": f"{name}-{copy}", "namespace": "default", "uid": f"{name}-{copy}"},
                        "status": {"allocation": {"devices": {"results": results}}},
                    }
                )
    classes = [{**one, "metadata": {**one["metadata"], "uid": "u", "resourceVersion": "1"}} for one in there.classes]
    return World(minor=37, taken_at="", classes=classes, nodes=nodes, slices=slices, claims=claims)


def essence(found: OnNode) -> Any:
    """All that does not depend on the names of a node and its pools."""
    chosen = None
    if found.chosen is not None:
        chosen = [[(one.wanted.name, one.device.id[0], one.device.id[2]) for one in some] for some in found.chosen]
    reasons = [(one.request, one.looked_at, one.fell_out, one.left, one.taints, one.most) for one in found.reasons]
    return chosen, found.problem, reasons, len(found.incomplete), sorted(found.invalid.values())


@pytest.mark.parametrize("number", range(60))
def test_what_is_said_of_a_group_is_true_of_each_node(number: int) -> None:
    random = Random(number)  # noqa: S311 (no secret)
    there = world(SEED, number)
    scene = Scene.of_file(many(there))
    for pod in range(6):
        claims: list[Claim] = [read_claim(one) for one in pods.claims(random, pod, pods.suitable_classes(there.slices))]
        mine = asking.prepare(scene, claims)
        together = mine.ask(claims)
        alone = asking.prepare(scene, claims, group=False).ask(claims)
        assert (together.stop is None) == (alone.stop is None)
        expected = {one.group.representative.metadata.name: essence(one.found) for one in alone.answered}
        if together.stop is None:
            assert sum(len(one.group.members) for one in together.answered) == len(scene.nodes)
        for one in together.answered:
            for name in one.group.members:
                assert essence(one.found) == expected[name], (number, pod, name)


def test_groups_are_found() -> None:
    groups = nodes = 0
    for number in range(10):
        random = Random(number)  # noqa: S311 (no secret)
        there = world(SEED, number)
        scene = Scene.of_file(many(there))
        claims = [read_claim(one) for one in pods.claims(random, 0, pods.suitable_classes(there.slices))]
        groups += len(asking.prepare(scene, claims).groups)
        nodes += len(scene.nodes)
    assert groups < nodes * 0.7
