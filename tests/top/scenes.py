"""Fleets that people look at: what the pages and the golden screens show."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from gpusharing.api.names import Sharing
from gpusharing.explaining.scene import Scene
from gpusharing.occupancy import notes, of_scene, sharing
from gpusharing.occupancy.fleet import Fleet, GpuUse, Holder, NodeUse
from gpusharing.occupancy.of_file import of_file
from gpusharing.occupancy.sums import summed
from gpusharing.occupancy.usage import Measured, Usage
from gpusharing.snapshots.world import World
from planning.fleets import Fleet as Builder
from planning.fleets import mps, policy, time_slicing
from top.place import shared_fleet

_UNKNOWN: Final = Usage()
_USED: Final = Usage(
    gpus={"GPU-node-0-3": Measured(memory=61_000, utilization=0.97)},
    claims={
        ("uid-train-0", "gpu-0-timeslicing"): Measured(21_504, 0.71),
        ("uid-camera-0", "gpu-0-timeslicing"): Measured(12_288, 0.11),
        ("uid-camera-1", "gpu-1-mps"): Measured(512, 0.02),
    },
)


def fleet_of(world: World, usage: Usage = _UNKNOWN) -> Fleet:
    found = of_file(world)
    measured = of_scene.fleet_of(Scene.of_file(world), sharing.lean().of_objects(world.node_sharings), usage)
    return replace(measured, waiting=found.waiting, notes=found.notes)


def seen_by_tenant(world: World, namespace: str = "ml") -> World:
    """As a person sees it who may list claims and pods of this namespace only."""
    return replace(
        world,
        only_namespace={"claims": namespace, "pods": namespace},
        claims=[one for one in world.claims if one["metadata"]["namespace"] == namespace],
        pods=[one for one in world.pods if one["metadata"]["namespace"] == namespace],
    )


def without_node_sharings(world: World) -> World:
    unread = {"node_sharings": 'nodesharings.gpusharing.dev is forbidden: User "jane" cannot list resource'}
    return replace(seen_by_tenant(world), node_sharings=(), unread=unread)


def _sick() -> Fleet:
    """Long names, many holders, and much that is wrong."""
    many = tuple(
        Holder(
            namespace="inference",
            claim=f"server-{number}-gpu",
            uid=f"u{number}",
            pods=(f"server-{number}",),
            device="gpu-0-mps",
            mode=Sharing.MPS,
            ratio=1 / 60,
            memory_promised=1024,
            memory_used=900,
        )
        for number in range(40)
    )
    long = Holder(
        namespace="a-namespace-whose-name-is-as-long-as-names-of-namespaces-may-be-ok",
        claim="claim",
        uid="u",
        device="gpu-1",
        mode=Sharing.EXCLUSIVE,
        ratio=1.0,
        memory_promised=81_559,
    )
    name = "ip-10-0-12-34.eu-central-1.compute.internal"
    model = "NVIDIA H100 80GB HBM3"
    shared = GpuUse(
        node=name,
        slot=0,
        uuid="a",
        model=model,
        memory=81_559,
        policy="inference",
        modes=(Sharing.MPS,),
        shares_taken=40,
        shares_total=60,
        ratio=40 / 60,
        memory_promised=40 * 1024,
        memory_used=36_000,
        utilization=1.0,
        holders=many,
    )
    changing = replace(
        shared,
        slot=1,
        policy="a-policy-with-a-name-that-is-too-long-for-columns",
        modes=(Sharing.EXCLUSIVE, Sharing.TIME_SLICING),
        shares_total=None,
        shares_taken=2,
        ratio=1.0,
        memory_promised=81_559,
        health="FatalXid",
        holders=(long,),
        hidden_claims=("x", "y"),
    )
    lost = GpuUse(node=name, slot=12, uuid="c", model="\x1b[31mevil\u202e", health="GpuLost", offers=(Sharing.MIG,))
    other = GpuUse(node="old", slot=0, ratio=None, modes=(Sharing.MPS,), hidden_claims=("z",))
    nodes = (
        NodeUse(name=name, gpus=(shared, changing, lost), problem="DriverDown"),
        NodeUse(name="old", gpus=(other,)),
    )
    return summed(Fleet(taken_at="2026-11-20T12:00:00Z", nodes=nodes))


def _idle() -> Fleet:
    """GPUs that nobody has: shared, reserved, being changed and without a policy."""
    every = {"exclusive": {}, **time_slicing(4), **mps(8), "mig": {"profiles": ["1g.10gb"]}}
    fleet = fleet_of(Builder(nodes=1, gpus=4, model="A100-80GB", policies=[policy("all", offers=every)]).world())
    (node,) = fleet.nodes
    shared, reserved, changing, found = node.gpus
    gpus = (
        shared,
        replace(reserved, policy="serving", restricted=True, offers=(Sharing.EXCLUSIVE,)),
        replace(changing, policy="layout", offers=()),
        replace(found, policy=None, offers=None),
    )
    return summed(replace(fleet, nodes=(replace(node, gpus=gpus),)))


def _empty() -> Fleet:
    world = World(minor=37, taken_at="", unread={"node_sharings": "the API server does not serve nodesharings (404)"})
    return summed(Fleet(notes=tuple(notes.notes(world))))


SCENES: Final[Mapping[str, Callable[[], Fleet]]] = {
    "cluster": lambda: fleet_of(shared_fleet().world()),
    "measured": lambda: fleet_of(shared_fleet().world(), _USED),
    "tenant": lambda: fleet_of(seen_by_tenant(shared_fleet().world())),
    "without-node-sharings": lambda: fleet_of(without_node_sharings(shared_fleet().world())),
    "idle": _idle,
    "sick": _sick,
    "empty": _empty,
}
