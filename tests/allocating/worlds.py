"""Random clusters."""

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from allocating import foreign_slices, our_slices, pods
from gpusharing.api import names

Json = dict[str, Any]

_RESOURCE: Final = "resource.k8s.io/v1"


@dataclass(frozen=True)
class World:
    nodes: list[Json]
    slices: list[Json]
    classes: list[Json]
    allocated: dict[str, list[Json]]
    """By claim: the results of those that are there from the beginning."""


def world(seed: int, number: int, *, nodes: list[Json] | None = None) -> World:
    """The same for the same seed, number and nodes, on every machine."""
    random = Random(f"{seed}/{number}")  # noqa: S311 (no secret)
    nodes = nodes or [_node(random, f"n{index}") for index in range(random.randint(1, 3))]
    models = tuple(random.sample(our_slices.MODELS, 2))
    specs: list[Json] = []
    allocated: dict[str, list[Json]] = {}
    for node in nodes:
        name = node["metadata"]["name"]
        if random.random() < 0.7:
            ours = our_slices.published(random, name, models)
            specs += ours.specs
            for index, (pool, held) in enumerate(ours.held):
                claim = f"before-{name}-{index}"
                allocated[claim] = [_result(ours.specs, pool, held, claim)]
    foreign = foreign_slices.pools(random, nodes)
    specs += foreign
    counting = [spec for spec in foreign if any(one.get("consumesCounters") for one in spec.get("devices", ()))]
    if counting and random.random() < 0.3:
        # More than their counters allow: a slice may change while its devices are in use.
        spec = random.choice(counting)
        for device in spec["devices"][random.randint(1, 2) :]:
            if not device.get("allowMultipleAllocations"):
                where = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"]}
                allocated[f"before-{device['name']}"] = [{"request": "gpu", **where}]
    slices = [{"metadata": {"name": f"s{index:03d}"}, "spec": spec} for index, spec in enumerate(specs)]
    random.shuffle(slices)
    return World(nodes, slices, pods.CLASSES, allocated)


def _node(random: Random, name: str) -> Json:
    labels = {"kubernetes.io/hostname": name}
    if random.random() < 0.8:
        labels["zone"] = random.choice(["a", "b"])
    if random.random() < 0.8:
        labels["rank"] = random.choice(["1", "2"])
    return {"metadata": {"name": name, "labels": labels}}


def _result(specs: list[Json], pool: str, name: str, claim: str) -> Json:
    """What a plain request gets."""
    (device,) = [one for spec in specs for one in spec.get("devices", ()) if one["name"] == name]
    result: Json = {"request": "gpu", "driver": names.DRIVER, "pool": pool, "device": name}
    if device.get("allowMultipleAllocations"):
        result["shareID"] = claim
        result["consumedCapacity"] = {
            capacity: entry["requestPolicy"]["default"] for capacity, entry in device["capacity"].items()
        }
    return result
