"""Who else serves a node's GPUs: what counts, and what does not."""

import asyncio
from typing import Any, cast

import pytest

from gpusharing.agent.publishing.other_drivers import OtherDrivers
from gpusharing.api.core import NodeWithStatus
from gpusharing.api.dra import ResourceSlice
from gpusharing.api.meta import OwnedMeta, WholeMeta
from gpusharing.core.publishing import slice_updates
from gpusharing.kube.transport import Api

DRIVER = "gpu.nvidia.com"


class OneNode:
    def __init__(self, labels: dict[str, str], allocatable: dict[str, str] | None) -> None:
        status: dict[str, Any] = {} if allocatable is None else {"allocatable": allocatable}
        self.node = NodeWithStatus(metadata=OwnedMeta(name="n1", labels=labels), status=status)
        self.asked = 0

    async def get(self, *_: object) -> NodeWithStatus:
        self.asked += 1
        return self.node


def slice_(name: str, pool: str = "n1") -> ResourceSlice:
    return ResourceSlice(metadata=WholeMeta(name=name), spec={"driver": DRIVER, "pool": {"name": pool}})


def found(one: OneNode, *slices: ResourceSlice, accepted: bool = False) -> tuple[str, ...]:
    others = OtherDrivers(cast("Api", one), node="n1", driver=DRIVER, are_accepted=accepted)
    assert asyncio.run(others.look(slices)) == bool(others.found)
    return others.found


@pytest.mark.parametrize(
    ("labels", "allocatable", "expected"),
    [
        ({}, None, 0),
        ({}, {"cpu": "8", "nvidia.com/gpu": "0", "amd.com/gpu": "4"}, 0),
        ({"nvidia.com/gpu.present": "true"}, {}, 0),
        ({}, {"nvidia.com/gpu": "4"}, 1),
        ({}, {"nvidia.com/mig-1g.10gb": "7"}, 1),
        ({}, {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "7"}, 1),
        ({"nvidia.com/mig.config": "all-balanced"}, {}, 1),
        ({"nvidia.com/mig.config": "all-balanced"}, {"nvidia.com/gpu": "4"}, 2),
    ],
)
def test_what_the_node_says(labels: dict[str, str], allocatable: dict[str, str] | None, expected: int) -> None:
    assert len(found(OneNode(labels, allocatable))) == expected
    assert found(OneNode(labels, allocatable), accepted=True) == ()


@pytest.mark.parametrize("pool", ["n1", "n1.reserved.vision"])
def test_slices_of_ours_are_told_by_their_names(pool: str) -> None:
    own = [slice_(slice_updates.slice_name(index, pool=pool, driver=DRIVER), pool) for index in (0, 1, 17)]
    assert found(OneNode({}, {}), *own) == ()
    for name in ("n1-gpu.nvidia.com-x7k2p", "00000-gpu.nvidia.com-n2", "0000g-gpu.nvidia.com-n1", "x"):
        [message] = found(OneNode({}, {}), *own, slice_(name))
        assert name in message


def test_the_node_is_not_asked_each_time() -> None:
    node = OneNode({}, {"nvidia.com/gpu": "4"})
    others = OtherDrivers(cast("Api", node), node="n1", driver=DRIVER, are_accepted=False)

    async def twice() -> None:
        assert await others.look(())
        assert await others.look(())

    asyncio.run(twice())
    assert node.asked == 1
    assert others.problem
    assert "start the agent with --beside-others" in others.problem.message
