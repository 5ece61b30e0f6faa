"""Slices of our agents, in every state of narrowing, and the claims that led there."""

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from building.boards import board, profile_names
from core.narrowing.test_narrowing import HOUR, MINUTE, Node
from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.offers import (
    ExclusiveOffer,
    MigOffer,
    MpsMemory,
    MpsOffer,
    MpsThreads,
    Offers,
    TimeSlicingMemory,
    TimeSlicingOffer,
)
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.devices.options import can_be_held_together, of_device
from gpusharing.core.publishing.devices import full_menu
from gpusharing.core.publishing.slices import PublishedGpu, slice_specs

MODELS: Final = ("H100-80GB", "A100-40GB", "T4", "A30", "L4")
POLICIES: Final = ("p", "search")
"""The first has all GPUs."""

_WAITS: Final = (0.0, MINUTE, HOUR)


@dataclass(frozen=True)
class Published:
    """What one node has."""

    specs: list[dict[str, Any]]
    held: list[tuple[str, str]]
    """Pool and device of what claims have already."""


def published(random: Random, node: str, models: tuple[str, ...]) -> Published:
    policy, _ = POLICIES
    is_restricted = random.random() < 0.3
    gpus = [_offered(random, slot, policy, models, is_restricted=is_restricted) for slot in range(random.randint(1, 3))]
    pool = names.pool(node, restricted_to=policy if is_restricted else None)
    agent = _lived(random, gpus, pool)
    shown = [
        PublishedGpu(gpu, publication.entries) for gpu in gpus if (publication := agent.publications[gpu.gpu.slot])
    ]
    if not shown:
        return Published([], [])
    specs = slice_specs(shown, node=node, pool=pool, driver=names.DRIVER, generation=random.randint(1, 3))
    there = {device["name"] for spec in specs for device in spec.get("devices", ())}
    return Published(specs, [(pool, holder.device) for holder in agent.holders if holder.device in there])


def _lived(random: Random, gpus: list[OfferedGpu], pool: str) -> Node:
    """An agent's node after some of its claims have come and gone."""
    agent = Node(list(gpus), menus=random.randint(0, 2), moved_to=pool)
    agent.look()
    if random.random() < 0.5:
        agent.approved = {entry.device for gpu in gpus for entry in full_menu(gpu)}
    for _ in range(random.randint(0, 4)):
        match random.randrange(4):
            case 0 if agent.holders:
                agent.holders.pop(random.randrange(len(agent.holders)))
                agent.look()
            case 1:
                agent.wait(random.choice(_WAITS))
            case _:
                if found := _takable(random, agent):
                    agent.prepare(found)
                    agent.wait(random.choice(_WAITS))
    return agent


def _takable(random: Random, agent: Node) -> str | None:
    """Something that the scheduler could have given to somebody."""
    gpu = random.choice(agent.gpus)
    publication = agent.publications[gpu.gpu.slot]
    if publication is None or not publication.entries:
        return None
    device = random.choice(publication.entries).device
    held = [one.device for one in agent.holders if names.slot_of_device(one.device) == gpu.gpu.slot]
    is_shared = names.sharing_of_device(device) in {Sharing.TIME_SLICING, Sharing.MPS}
    if held.count(device) >= (2 if is_shared else 1):
        return None
    together = [of_device(gpu.gpu, one) for one in {*held, device}]
    return device if can_be_held_together(gpu.gpu, together) else None


def _offered(random: Random, slot: int, policy: str, models: tuple[str, ...], *, is_restricted: bool) -> OfferedGpu:
    gpu = board(random.choice(models), slot, pcie_root=f"pci0000:{slot // 2:02x}", numa_node=slot // 2)
    profiles = profile_names(gpu)
    time_slicing = TimeSlicingOffer(
        max_clients=random.randint(2, 4),
        memory=TimeSlicingMemory(default="4Gi", min="1Gi") if random.random() < 0.5 else None,
    )
    mps = MpsOffer(
        max_clients=random.randint(2, 4),
        memory=MpsMemory(default="4Gi", min="2Gi", max=random.choice([None, "8Gi"])),
        threads=MpsThreads(default=25, min=5),
    )
    some = tuple(random.sample(profiles, min(len(profiles), random.randint(1, 3)))) if profiles else ()
    offers = Offers(
        exclusive=ExclusiveOffer() if random.random() < 0.8 else None,
        time_slicing=time_slicing if random.random() < 0.6 else None,
        mps=mps if random.random() < 0.4 else None,
        mig=MigOffer(profiles=some) if some and random.random() < 0.5 else None,
    )
    return OfferedGpu(
        gpu=gpu,
        offers=offers,
        policy=PolicyReference(name=policy, generation=1),
        configured=random.random() < 0.95,
        restricted=is_restricted,
        evicts=random.random() < 0.3,
        unhealthy={names.whole_device(slot): "XidFault"} if random.random() < 0.1 else {},
        agent_stopped=random.random() < 0.05,
    )
