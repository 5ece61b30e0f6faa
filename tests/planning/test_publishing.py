"""What a plan says of devices is what agents come to publish, whatever was offered and held before."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from building import uuid
from building.boards import board
from core.narrowing.test_narrowing import HOUR, Node
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.planning.deciding import Edit
from gpusharing.planning.plan import plan
from planning.fleets import Fleet, mps, policy, time_slicing

GPUS = 3


def some_offers(random: Random) -> dict[str, Any]:
    modes = [
        {"exclusive": {}},
        time_slicing(random.randint(2, 4)),
        mps(),
        {"mig": {"profiles": ["1g.10gb", "3g.40gb"]}},
    ]
    offers: dict[str, Any] = {}
    for mode in random.sample(modes, random.randint(1, 4)):
        offers |= mode
    return offers


def offered(entries: dict[str, Any], slot: int) -> OfferedGpu:
    entry = entries[uuid(slot, "node-0")]
    return OfferedGpu(
        gpu=board("H100-80GB", slot, uuid=entry.uuid),
        offers=entry.offers,
        policy=entry.policy,
        configured=True,
        evicts=entry.drain is not None,
    )


@pytest.mark.parametrize("seed", range(60))
def test_agents_come_to_publish_what_is_planned(seed: int) -> None:
    random = Random(seed)  # noqa: S311
    fleet = Fleet(nodes=1, gpus=GPUS, policies=[policy("p", offers=some_offers(random))])
    for slot in random.sample(range(GPUS), random.randint(0, GPUS)):
        fleet.hold(random.choice(takable(fleet, slot)))
    world = fleet.world()
    changed = policy("p", offers=some_offers(random))
    [*planned] = plan(world, Edit(policies=[changed])).nodes

    agent = settled(fleet, changed)
    published = {device for spec in world.slices for device in map(name_of, spec["spec"].get("devices", ()))}
    wanted = published.union(*(node.added for node in planned)).difference(*(node.removed for node in planned))
    assert wanted == {entry.device for one in agent.publications.values() if one for entry in one.entries}


def name_of(device: dict[str, Any]) -> str:
    return str(device["name"])


def takable(fleet: Fleet, slot: int) -> list[str]:
    """Devices of an idle GPU with the full menu."""
    alone = replace(fleet, claims=[], pods=[], gpus=slot + 1)
    entries = {gpu.uuid: gpu for gpu in decided(alone)}
    agent = Node([offered(entries, slot)], moved_to="node-0")
    agent.look()
    publication = agent.publications[slot]
    assert publication is not None
    return [entry.device for entry in publication.entries]


def settled(fleet: Fleet, changed: dict[str, Any]) -> Node:
    """An agent after the change: everything that may go has gone."""
    before = {gpu.uuid: gpu for gpu in decided(fleet)}
    after = {gpu.uuid: gpu for gpu in decided(replace(fleet, policies=[changed]))}
    agent = Node([offered(before, slot) for slot in range(GPUS)], moved_to="node-0")
    agent.look()
    held = [claim["status"]["allocation"]["devices"]["results"][0]["device"] for claim in fleet.claims]
    agent.prepare(*held)
    agent.allocated = set(held)
    for gpus in (agent.gpus, [offered(after, slot) for slot in range(GPUS)]):
        agent.gpus = gpus
        agent.look()
        for _ in range(4):
            there = {entry.device for one in agent.publications.values() if one for entry in one.entries}
            agent.approved = there - set(held)
            agent.wait(HOUR)
    return agent


def decided(fleet: Fleet) -> list[Any]:
    """The entries of the node, as the operator writes them."""
    [sharing] = fleet.world().node_sharings
    return list(NodeSharing.model_validate(sharing).spec.gpus)
