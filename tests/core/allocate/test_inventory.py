"""What the scheduler gathers from slices to the pools of a node."""

from collections.abc import Sequence
from typing import Any, Final

import pytest

from gpusharing.api.dra import Node
from gpusharing.core.allocate.inventory import Inventory, NodePools
from gpusharing.core.allocate.node_selectors import matches
from gpusharing.kube.kinds import NODES, RESOURCE_SLICES

Json = dict[str, Any]

DRIVER: Final = "gpu.example.com"
COUNTERS: Final[Json] = {"sharedCounters": [{"name": "all", "counters": {"memory": {"value": "8"}}}]}


def node(name: str = "n1", **labels: str) -> Node:
    return NODES.from_json({"metadata": {"name": name, "labels": labels}})


def spec(*devices: str, count: int = 1, generation: int = 1, pool: str = "n1", **more: Any) -> Json:
    where = {} if {"allNodes", "nodeSelector", "perDeviceNodeSelection"} & more.keys() else {"nodeName": "n1"}
    found = {"name": pool, "generation": generation, "resourceSliceCount": count}
    listed = {"devices": [{"name": name} for name in devices]} if devices else {}
    return {"driver": DRIVER, "pool": found} | where | listed | more


def pools(specs: Sequence[Json], *, minor: int = 37, at: Node | None = None) -> NodePools:
    slices = [RESOURCE_SLICES.from_json({"metadata": {"name": f"s{n}"}, "spec": one}) for n, one in enumerate(specs)]
    return Inventory(slices, minor=minor).node(at or node())


def devices(found: NodePools) -> list[str]:
    return ["/".join(device.id[1:]) for device in found.devices]


def test_pools_come_by_their_names_and_slices_by_theirs() -> None:
    specs = [spec("b", count=2, pool="z"), spec("c", pool="a"), spec("a", count=2, pool="z")]
    assert devices(pools(specs)) == ["a/c", "z/b", "z/a"]


def test_pools_that_are_waited_for_come_last() -> None:
    waited = spec(pool="a", devices=[{"name": "x", "bindingConditions": ["example.com/ready"]}])
    assert devices(pools([waited, spec("y", pool="b")])) == ["b/y", "a/x"]


def test_only_the_newest_generation_counts() -> None:
    assert devices(pools([spec("old"), spec("new", generation=2)])) == ["n1/new"]


def test_of_an_incomplete_pool_there_is_nothing() -> None:
    found = pools([spec("a", count=2)])
    assert (devices(found), found.incomplete) == ([], ((DRIVER, "n1"),))


def test_slices_for_other_nodes_make_a_pool_complete() -> None:
    found = pools([spec("a", count=2), spec("b", count=2, nodeName="n2")])
    assert devices(found) == ["n1/a"]
    assert [device.id[2] for device in found.pools[DRIVER, "n1"].others] == ["b"]


def test_what_is_replaced_on_other_nodes_first_is_neither_there_nor_incomplete() -> None:
    found = pools([spec("a", count=2), spec("b", count=2, generation=2, nodeName="n2")])
    assert (devices(found), found.incomplete) == ([], ())


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ([spec("a", "a")], "duplicate device name a"),
        ([spec(count=2, **COUNTERS), spec(count=2, **COUNTERS)], "duplicate counter set name all"),
        (
            [spec(devices=[{"name": "a", "consumesCounters": [{"counterSet": "none", "counters": {}}]}])],
            "counter set none not found",
        ),
        (
            [
                spec(count=2, **COUNTERS),
                spec(
                    count=2,
                    devices=[
                        {
                            "name": "a",
                            "consumesCounters": [{"counterSet": "all", "counters": {"lanes": {"value": "1"}}}],
                        }
                    ],
                ),
            ],
            "counter lanes not found in counter set all",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_pool_is_named_and_others_can_be_used(broken: list[Json], reason: str) -> None:
    found = pools([*broken, spec("fine", pool="other")])
    assert (devices(found), found.invalid) == (["other/fine"], {(DRIVER, "n1"): reason})


@pytest.mark.parametrize(("minor", "seen"), [(36, ((DRIVER, "far"),)), (37, ())])
def test_up_to_1_36_an_incomplete_pool_with_counters_concerns_every_node(minor: int, seen: Any) -> None:
    far = spec(count=2, pool="far", **COUNTERS) | {"nodeName": "n9"}
    assert pools([far, spec("a")], minor=minor).incomplete == seen


@pytest.mark.parametrize(("minor", "seen"), [(36, ["n1/a", "n1/b"]), (37, [])])
def test_from_1_37_on_slices_with_compatibility_groups_are_ignored(minor: int, seen: list[str]) -> None:
    consumption = {"counterSet": "all", "counters": {"memory": {"value": "1"}}, "compatibilityGroups": ["g"]}
    specs = [
        spec(count=3, **COUNTERS),
        spec("a", count=3),
        spec(count=3, devices=[{"name": "b", "consumesCounters": [consumption]}]),
    ]
    assert devices(pools(specs, minor=minor)) == seen


def test_devices_that_say_themselves_where_they_are() -> None:
    listed = [{"name": "a", "nodeName": "n1"}, {"name": "b", "nodeName": "n2"}, {"name": "c", "allNodes": True}]
    here = pools([spec(perDeviceNodeSelection=True, devices=listed)])
    assert [device.id[2] for device in here.devices if device not in here.elsewhere] == ["a", "c"]
    assert devices(pools([spec(perDeviceNodeSelection=True, devices=listed[1:2])])) == []


@pytest.mark.parametrize(
    ("requirement", "labels", "holds"),
    [
        ({"operator": "In", "values": ["a", "b"]}, {"zone": "b"}, True),
        ({"operator": "In", "values": ["a"]}, {}, False),
        ({"operator": "NotIn", "values": ["a"]}, {}, True),
        ({"operator": "NotIn", "values": ["a"]}, {"zone": "a"}, False),
        ({"operator": "Exists"}, {"zone": ""}, True),
        ({"operator": "DoesNotExist"}, {"zone": ""}, False),
        ({"operator": "Gt", "values": ["9"]}, {"zone": "10"}, True),
        ({"operator": "Gt", "values": ["9"]}, {"zone": "x"}, False),
        ({"operator": "Lt", "values": ["9"]}, {"zone": "-1"}, True),
        ({"operator": "Lt", "values": ["9"]}, {}, False),
        ({"operator": "New"}, {"zone": "a"}, False),
    ],
)
def test_node_selectors(requirement: Json, labels: dict[str, str], holds: bool) -> None:
    term = {"matchExpressions": [{"key": "zone"} | requirement]}
    assert matches({"nodeSelectorTerms": [term]}, node(**labels)) is holds
    assert matches({"nodeSelectorTerms": [{}, term]}, node(**labels)) is holds


def test_a_node_selector_by_name_and_one_without_requirements() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    assert matches({"nodeSelectorTerms": [{"matchFields": [field]}]}, node())
    assert not matches({"nodeSelectorTerms": [{"matchFields": [field]}]}, node("n2"))
    assert not matches({"nodeSelectorTerms": [{}]}, node())


def test_slices_that_share_their_list_of_devices_are_described_as_if_each_had_its_own() -> None:
    shared = [{"name": f"d{number}", "attributes": {"number": {"int": number % 2}}} for number in range(4)]
    specs = [spec(pool=f"p{number}", generation=1) | {"devices": shared} for number in range(3)]
    own = [one | {"devices": [dict(device) for device in shared]} for one in specs]
    found = [[(device.id, device.shape, device.room.values) for device in pools(some).devices] for some in (specs, own)]
    assert found[0] == found[1]
    assert len({shape for _, shape, _ in found[0]}) == 2
