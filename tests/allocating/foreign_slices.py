"""Slices of drivers that we know nothing of, valid for the API server, in all the shapes that it allows."""

from random import Random
from typing import Any, Final

DRIVERS: Final = ("gpu.example.com", "net.example.com")

Json = dict[str, Any]

COUNTERS: Final = ("memory", "engines", "lanes")
MODELS: Final = ("small", "large")
ROOTS: Final = ("pci0000:00", "pci0000:01")
TAINTS: Final = ("example.com/broken", "example.com/test")


def pools(random: Random, nodes: list[Json]) -> list[Json]:
    """Specs of slices, with names to go with them still to come."""
    specs: list[Json] = []
    driver = random.choice(DRIVERS)
    for node in nodes:
        if random.random() < 0.8:
            specs += _pool(random, driver, node["metadata"]["name"], {"nodeName": node["metadata"]["name"]}, nodes)
    if random.random() < 0.4:
        specs += _pool(random, random.choice(DRIVERS), "everywhere", _wide(random), nodes)
    if random.random() < 0.3:
        # Each slice of it is for another node.
        for spec in _pool(random, random.choice(DRIVERS), "spread", {}, nodes):
            where = (
                {"allNodes": True} if random.random() < 0.2 else {"nodeName": random.choice(nodes)["metadata"]["name"]}
            )
            specs.append(spec | where)
    return specs


def _wide(random: Random) -> Json:
    return random.choice(
        [
            {"allNodes": True},
            {"nodeSelector": {"nodeSelectorTerms": [_term(random)]}},
            {"perDeviceNodeSelection": True},
        ]
    )


def _term(random: Random) -> Json:
    operator = random.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
    key = random.choice(["zone", "rank"])
    if operator in {"Gt", "Lt"}:
        return {"matchExpressions": [{"key": "rank", "operator": operator, "values": [str(random.randint(0, 3))]}]}
    requirement: Json = {"key": key, "operator": operator}
    if operator in {"In", "NotIn"}:
        requirement["values"] = random.sample(["a", "b", "1", "2"], random.randint(1, 2))
    return {"matchExpressions": [requirement]}


def _pool(random: Random, driver: str, pool: str, where: Json, nodes: list[Json]) -> list[Json]:
    generation = random.randint(1, 3)
    contents: list[Json] = []
    counter_sets = [f"set-{number}" for number in range(random.randint(1, 2))] if random.random() < 0.5 else []
    if counter_sets:
        sets = [{"name": name, "counters": _counters(random, 4, 12)} for name in counter_sets]
        contents.append({"sharedCounters": sets})
    is_shared = random.random() < 0.5
    number = 0
    for _ in range(random.randint(1, 2)):
        devices = []
        for _ in range(random.randint(1, 5)):
            devices.append(_device(random, driver, number, counter_sets, is_shared=is_shared))
            number += 1
            if "perDeviceNodeSelection" in where:
                name = random.choice(nodes)["metadata"]["name"]
                devices[-1] |= random.choice(
                    [{"nodeName": name}, {"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": [_term(random)]}}]
                )
        contents.append({"devices": devices} if devices else {})
    if random.random() < 0.05:
        contents.append({"devices": [_plain(number) for number in range(number, number + 36)]})
    if random.random() < 0.06 and number > 1:
        contents[-1].setdefault("devices", []).append(_device(random, driver, 0, counter_sets, is_shared=is_shared))
    if "perDeviceNodeSelection" in where:
        for device in (device for content in contents for device in content.get("devices", ())):
            if not device.keys() & {"nodeName", "nodeSelector", "allNodes"}:
                device["allNodes"] = True
    told = {"name": pool, "generation": generation, "resourceSliceCount": len(contents)}
    specs = [{"driver": driver, "pool": told, **where, **content} for content in contents]
    if random.random() < 0.08:
        specs.pop(random.randrange(len(specs)))  # still to come
    if random.random() < 0.2 and specs:
        old = {**specs[-1], "pool": told | {"generation": generation - 1}}
        specs.append(old)
    return specs


def _plain(number: int) -> Json:
    """One of so many that a claim cannot have all of them."""
    return {"name": f"dev-{number}", "attributes": {"index": {"int": number}, "healthy": {"bool": True}}}


def _counters(random: Random, least: int, most: int) -> Json:
    return {name: {"value": str(random.randint(least, most))} for name in COUNTERS}


def _device(random: Random, driver: str, number: int, counter_sets: list[str], *, is_shared: bool) -> Json:
    attributes: Json = {
        "model": {"string": random.choice(MODELS)},
        "index": {"int": number},
        "resource.kubernetes.io/pcieRoot": {"string": random.choice(ROOTS)},
    }
    if random.random() < 0.7:
        attributes["healthy"] = {"bool": random.random() < 0.8}
    if random.random() < 0.6:
        attributes["firmware"] = {"version": f"1.{random.randint(0, 2)}.0"}
    if random.random() < 0.3:
        attributes[f"{driver}/group"] = random.choice([{"int": 1}, {"string": "1"}, {"int": 2}])
    device: Json = {"name": f"dev-{number}", "attributes": attributes}
    if is_shared and random.random() < 0.8:
        device["allowMultipleAllocations"] = True
    device["capacity"] = _capacity(random, is_shared="allowMultipleAllocations" in device)
    if not device["capacity"]:
        del device["capacity"]
    if counter_sets and random.random() < 0.9:
        some = random.sample(counter_sets, random.randint(1, len(counter_sets)))
        device["consumesCounters"] = [
            {"counterSet": name, "counters": _some(random, _counters(random, 0, 6))} for name in some
        ]
    if random.random() < 0.15:
        device["taints"] = [
            {
                "key": random.choice(TAINTS),
                "value": random.choice(["", "yes"]),
                "effect": random.choice(["NoSchedule", "NoExecute", "None"]),
            }
        ]
    if random.random() < 0.03:
        device["bindingConditions"] = ["example.com/ready"]
        device["bindingFailureConditions"] = ["example.com/failed"]
    if random.random() < 0.05:
        device["bindsToNode"] = True
    return device


def _some(random: Random, counters: Json) -> Json:
    return dict(random.sample(sorted(counters.items()), random.randint(1, len(counters))))


def _capacity(random: Random, *, is_shared: bool) -> Json:
    capacity: Json = {}
    if random.random() < 0.85:
        capacity["memory"] = {"value": random.choice(["8Gi", "16Gi", "20Gi", "10G"])}
        if is_shared and random.random() < 0.7:
            capacity["memory"]["requestPolicy"] = _policy(random)
    if random.random() < 0.4:
        capacity["cores"] = {"value": random.choice(["2", "4", "1500m"])}
        if is_shared and random.random() < 0.5:
            capacity["cores"]["requestPolicy"] = _fractions(random)
    return capacity


def _policy(random: Random) -> Json:
    if random.random() < 0.3:
        return {"default": "2Gi", "validValues": ["1Gi", "2Gi", "4Gi"]}
    if random.random() < 0.3:
        return {"default": random.choice(["0", "1Gi"]), "validRange": {"min": "0"}}
    return random.choice(
        [
            {"default": "1Gi", "validRange": {"min": "1Gi"}},
            {"default": "2Gi", "validRange": {"min": "1Gi", "max": "6Gi"}},
            {"default": "2Gi", "validRange": {"min": "1Gi", "max": "7Gi", "step": "1Gi"}},
            {"default": "1536Mi", "validRange": {"min": "512Mi", "step": "512Mi"}},
            {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1000M"}},
        ]
    )


def _fractions(random: Random) -> Json:
    return random.choice(
        [
            {"default": "500m", "validRange": {"min": "500m", "step": "250m"}},
            {"default": "1", "validRange": {"min": "1", "max": "1500m"}},
            {"default": "100m", "validRange": {"min": "100m", "max": "1", "step": "100m"}},
            {"default": "1", "validValues": ["1"]},
        ]
    )
