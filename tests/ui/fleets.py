"""Clusters to look at."""

import copy
from dataclasses import replace
from typing import Any, Final

from building import NOW
from gpusharing.snapshots.world import World
from planning.fleets import TEAM, Fleet, mps, policy, time_slicing

EVERY_MODE: Final = {"exclusive": {}, **time_slicing(4), **mps(8), "mig": {"profiles": ["1g.10gb", "3g.40gb"]}}
HOSTILE: Final = "<img src=x onerror=\"document.title='owned'\"></title><script>document.title='owned'</script>"


def status(ready: str, message: str = "", *, is_ready: bool = False, **counts: Any) -> dict[str, Any]:
    """Of a policy, as the operator writes it."""
    values = {
        "Accepted": ("True", "Accepted", ""),
        "Ready": ("True" if is_ready else "False", ready, message),
        "Progressing": ("False" if is_ready else "True", "Complete" if is_ready else ready, message),
    }
    conditions = [
        {"type": type_, "status": value, "reason": reason, "message": text, "lastTransitionTime": NOW}
        for type_, (value, reason, text) in values.items()
    ]
    return {"observedGeneration": 1, "conditions": conditions, **counts}


def example() -> World:
    """Four nodes, all modes, an unhealthy GPU, pods that wait, and two policies."""
    both = [
        policy("all-modes", offers=EVERY_MODE)
        | {
            "status": status(
                "Ready",
                is_ready=True,
                nodes={"selected": 4, "ready": 4},
                gpus={"won": 16, "lost": 0},
                clients={"current": 13, "max": 128},
            )
        },
        policy("trainers", nodes={"matchLabels": {"pool": "train"}})
        | {"status": status("NoMatchingNodes", "no node with GPUs has the labels pool=train")},
    ]
    fleet = Fleet(nodes=4, gpus=4, policies=both)
    fleet.namespaces = {"ml": {}, "search": TEAM, "research": {}}
    for number in range(3):
        consumed = {"shares": "1", "memory": "20Gi"}
        fleet.hold("gpu-0-timeslicing", namespace="ml", name=f"train-{number}", consumed=consumed)
    of_index = {"shares": "1", "memory": "8Gi", "threads": "25"}
    fleet.hold("gpu-1-mps", namespace="search", name="index-a", consumed=of_index)
    fleet.hold("gpu-1-mps", namespace="search", name="index-b", consumed=of_index | {"shares": "2", "memory": "16Gi"})
    fleet.hold("gpu-2", namespace="research", name="notebook-of-somebody")
    fleet.hold("gpu-0-mig-1g10gb-19-0", node="node-1", namespace="research", name="small-0")
    fleet.hold("gpu-0-mig-3g40gb-9-4", node="node-1", namespace="ml", name="eval-3")
    for number in range(4):
        fleet.hold("gpu-1-timeslicing", node="node-1", namespace="ml", name=f"batch-{number}")
    fleet.hold("gpu-2", node="node-1", namespace="ml", name="big")
    fleet.wait("mps.gpu.nvidia.com", namespace="search", name="index-c", capacity={"requests": {"memory": "90Gi"}})
    fleet.wait("gpu.nvidia.com", namespace="ml", name="train-7", count=5)
    return with_event(unhealthy(fleet.world(), "node-2", 1))


def unhealthy(world: World, node: str, slot: int, message: str = "the GPU has fallen off the bus") -> World:
    """As an agent reports it."""
    sharings: Any = copy.deepcopy(list(world.node_sharings))
    gpus = next(one for one in sharings if one["metadata"]["name"] == node)["status"]["gpus"]
    condition = {"type": "Healthy", "status": "False", "reason": "GpuLost", "message": message}
    gpus[slot]["conditions"] = [condition | {"lastTransitionTime": NOW}]
    return replace(world, node_sharings=sharings)


def with_event(world: World, message: str = "claim uses GPU gpu-0") -> World:
    about = {"kind": "ResourceClaim", "namespace": "ml", "name": "train-0", "uid": "uid-train-0"}
    event = {
        "metadata": {"name": "prepared", "namespace": "ml"},
        "involvedObject": about,
        "type": "Warning",
        "reason": "SettingIgnored",
        "message": message,
        "lastTimestamp": NOW,
    }
    return replace(world, events=[event])


def hostile() -> World:
    """Where people, agents and programs may write texts, these have a script."""
    world = with_event(unhealthy(example(), "node-0", 0, HOSTILE), HOSTILE)
    policies: Any = copy.deepcopy(list(world.policies))
    for one in policies:
        one["status"]["conditions"][1]["message"] = HOSTILE
    claims: Any = copy.deepcopy(list(world.claims))
    for one in claims:
        one["metadata"]["name"] += HOSTILE
        for consumer in (one.get("status") or {}).get("reservedFor") or ():
            consumer["name"] += HOSTILE
    return replace(world, policies=policies, claims=claims)


def large(nodes: int, shares: int = 4) -> World:
    """Eight GPUs and ten claims on each, eight of which share GPUs."""
    fleet = Fleet(nodes=nodes, gpus=8, policies=[policy("all", offers={**EVERY_MODE, **time_slicing(shares)})])
    fleet.namespaces = {f"team-{number}": {} for number in range(20)}
    for number in range(nodes):
        where: dict[str, Any] = {"node": f"node-{number}", "namespace": f"team-{number % 20}"}
        for place in range(8):
            fleet.hold(f"gpu-{place // shares}-timeslicing", **where)
        fleet.hold("gpu-2", **where)
        fleet.hold("gpu-3", **where)
    return fleet.world()
