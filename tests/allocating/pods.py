"""Classes, and what pods ask for."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

from allocating import foreign_slices
from allocating.our_slices import POLICIES
from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.core.cluster.device_classes import selector

Json = dict[str, Any]
Classes = Mapping[str, Sequence[str]]

OURS: Final = names.DRIVER

_FOREIGN: Final = foreign_slices.DRIVERS


def _cel(expression: str) -> Json:
    return {"cel": {"expression": expression}}


def _class(name: str, *expressions: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"selectors": [_cel(each) for each in expressions]}}


CLASSES: Final[list[Json]] = [
    *(
        _class(names.policy_class(policy, sharing), selector(policy, sharing, OURS))
        for policy in POLICIES
        for sharing in Sharing
    ),
    _class("any.nvidia.com", f'device.driver == "{OURS}"'),
    _class("gpu.nvidia.com", f"device.driver == '{OURS}' && device.attributes['{OURS}'].type == 'gpu'"),
    _class("mig.nvidia.com", f"device.driver == '{OURS}' && device.attributes['{OURS}'].type == 'mig'"),
    *(_class(driver, f'device.driver == "{driver}"') for driver in _FOREIGN),
    _class("shared.example.com", f'device.driver == "{_FOREIGN[0]}"', "device.allowMultipleAllocations == true"),
    _class("everything"),
    _class("broken", f'device.attributes["{_FOREIGN[0]}"].healthy'),
]

_OF_OURS: Final = tuple(names.policy_class(policy, sharing) for policy in POLICIES for sharing in Sharing)
_ANY_CLASS: Final = (*_OF_OURS, "any.nvidia.com", *_FOREIGN, "everything", "broken")

_EVERYWHERE: Final = (
    "device.attributes['resource.kubernetes.io'].?pcieRoot.orValue('') == 'pci0000:00'",
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
)
_SELECTORS: Final = {
    OURS: (
        f'device.attributes["{OURS}"].?profile.orValue("").startsWith("1g")',
        f'device.attributes["{OURS}"].productName.contains("0")',
        f'device.capacity["{OURS}"].memory.compareTo(quantity("20Gi")) >= 0',
        *_EVERYWHERE,
    ),
    **{
        driver: (
            f'device.attributes["{driver}"].?model.orValue("") == "large"',
            f'device.attributes["{driver}"].?index.orValue(0) >= 1',
            f'device.attributes["{driver}"].?firmware.orValue(semver("1.0.0")).isGreaterThan(semver("1.0.0"))',
            f'device.attributes["{driver}"].index < 9',
            f'device.attributes["{driver}"].healthy',
            *_EVERYWHERE,
        )
        for driver in _FOREIGN
    },
}
_ATTRIBUTES: Final = {
    OURS: (
        "resource.kubernetes.io/pcieRoot",
        "resource.kubernetes.io/numaNode",
        *(f"{OURS}/{name}" for name in ("productName", "uuid", "parentUUID", "profile", "type")),
    ),
    **{
        driver: (
            "resource.kubernetes.io/pcieRoot",
            *(f"{driver}/{name}" for name in ("model", "model", "group", "index", "firmware", "healthy")),
        )
        for driver in _FOREIGN
    },
}
_AMOUNTS: Final = {
    "memory": ("1Gi", "2Gi", "3Gi", "5Gi", "1500Mi", "8Gi", "40Gi", "0", "1234567890"),
    "shares": ("1", "1", "2"),
    "threads": ("10", "50"),
    "cores": ("500m", "300m", "1", "1250m", "2", "0.0005"),
    "bandwidth": ("1",),
}
_CAPACITIES: Final = {OURS: ("memory", "memory", "shares", "threads"), **dict.fromkeys(_FOREIGN, ("memory", "cores"))}
_MANY: Final = (*((1,) * 24), *((2,) * 6), 3, 3, 4, 8, 15, 17, 20, 40)


def suitable_classes(slices: Sequence[Json]) -> Classes:
    """By driver: those that match some of its devices."""
    found: dict[str, set[str]] = {}
    for one in slices:
        driver = one["spec"]["driver"]
        for device in one["spec"].get("devices", ()):
            names_ = found.setdefault(driver, set())
            if driver != OURS:
                names_ |= {driver} | ({"shared.example.com"} if device.get("allowMultipleAllocations") else set())
                continue
            attributes = device["attributes"]
            sharing = Sharing(attributes[names.SHARING_ATTRIBUTE]["string"])
            names_.add("mig.nvidia.com" if sharing is Sharing.MIG else "any.nvidia.com")
            if attributes["type"] == {"string": "gpu"}:
                names_.add("gpu.nvidia.com")
            names_.add(names.policy_class(attributes[names.POLICY_ATTRIBUTE]["string"], sharing))
    return {driver: tuple(sorted(some)) for driver, some in sorted(found.items())} or {OURS: ("any.nvidia.com",)}


def claims(random: Random, number: int, classes: Classes) -> list[Json]:
    """Of one pod, mostly for these classes."""
    count = random.choices([1, 2, 3], weights=[7, 2, 1])[0]
    return [_claim(random, f"pod-{number}-{index}", classes) for index in range(count)]


def _claim(random: Random, name: str, classes: Classes) -> Json:
    driver = random.choice(list(classes))
    count = random.choices([1, 2, 3], weights=[6, 3, 1])[0]
    requests = [
        _request(random, f"r{index}", driver if random.random() < 0.8 else random.choice(list(classes)), classes)
        for index in range(count)
    ]
    devices: Json = {"requests": requests}
    if random.random() < 0.25:
        refs = [request["name"] for request in requests]
        refs += [
            f"{request['name']}/{one['name']}" for request in requests for one in request.get("firstAvailable", ())
        ]
        constraints = []
        for _ in range(random.choice([1, 1, 2])):
            kind = random.choice(["matchAttribute", "matchAttribute", "distinctAttribute"])
            constraint: Json = {kind: random.choice(_ATTRIBUTES[driver])}
            if random.random() < 0.4:
                constraint["requests"] = random.sample(refs, random.randint(1, len(refs)))
            constraints.append(constraint)
        devices["constraints"] = constraints
    return {"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": {"devices": devices}}


def _request(random: Random, name: str, driver: str, classes: Classes) -> Json:
    if random.random() < 0.2:
        each = [{"name": f"a{index}", **_wanted(random, driver, classes)} for index in range(random.randint(1, 3))]
        return {"name": name, "firstAvailable": each}
    wanted = _wanted(random, driver, classes)
    if random.random() < 0.06:
        wanted["adminAccess"] = True
    return {"name": name, "exactly": wanted}


def _wanted(random: Random, driver: str, classes: Classes) -> Json:
    name = random.choice(classes[driver] if random.random() < 0.97 else _ANY_CLASS)
    wanted: Json = {"deviceClassName": name, "allocationMode": "ExactCount"}
    if random.random() < 0.1:
        wanted["allocationMode"] = "All"
    else:
        wanted["count"] = random.choice(_MANY)
    if random.random() < 0.15:
        wanted["selectors"] = [_cel(random.choice(_SELECTORS[driver])) for _ in range(random.choice([1, 1, 2]))]
    if random.random() < 0.2:
        some = {random.choice(_CAPACITIES[driver] if random.random() < 0.95 else tuple(_AMOUNTS))}
        if random.random() < 0.2:
            some.add(random.choice(_CAPACITIES[driver]))
        wanted["capacity"] = {"requests": {each: random.choice(_AMOUNTS[each]) for each in sorted(some)}}
    if random.random() < 0.25:
        wanted["tolerations"] = [_toleration(random)]
    return wanted


def _toleration(random: Random) -> Json:
    keys = (*foreign_slices.TAINTS, names.CLOSING, names.DRAINING, names.UNHEALTHY_TAINT)
    return random.choice(
        [
            {"operator": "Exists"},
            {"key": random.choice(keys), "operator": "Exists"},
            {"key": random.choice(keys), "operator": "Equal", "value": random.choice(["", "yes"])},
            {"key": random.choice(keys), "operator": "Exists", "effect": random.choice(["NoSchedule", "NoExecute"])},
        ]
    )
