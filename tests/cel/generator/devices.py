"""Random devices in the form that a ResourceSlice has, with their driver."""

from random import Random
from typing import Any

from cel.generator import device_names as names
from cel.generator import values
from cel.generator.kinds import parse

_TEXTS = {
    "address": (*values.ADDRESSES, *values.ODD_ADDRESSES[:4]),
    "network": (*values.NETWORKS, *values.ODD_NETWORKS[:4]),
    "endpoint": (*values.URLS, *values.ODD_URLS[:4]),
    "ttl": (*values.DURATIONS, *values.ODD_DURATIONS[:4]),
    "born": (*values.TIMESTAMPS, *values.ODD_TIMESTAMPS[:4]),
    "size": (*values.QUANTITIES, *values.ODD_QUANTITIES[:4]),
    "label": (*values.FORMATTED, *values.VERSIONS),
}
_FORM_OF_KIND = {
    "string": "string",
    "int": "int",
    "bool": "bool",
    "semver": "version",
    "list(string)": "strings",
    "list(int)": "ints",
    "list(bool)": "bools",
    "list(semver)": "versions",
}
_FORMS = {name: form for kind, form in _FORM_OF_KIND.items() for name in names.BY_KIND[parse(kind)]}


def device(random: Random, driver: str) -> dict[str, Any]:
    made: dict[str, Any] = {"driver": driver}
    if random.random() < 0.04:
        return made
    usual_share = random.choice((0.6, 1.0, 1.0))
    made["attributes"] = {
        _qualified(random, name): _attribute(random, name, form)
        for name, form in _FORMS.items()
        if random.random() < usual_share
    }
    made["capacity"] = {
        _qualified(random, name): {"value": _quantity(random, name)}
        for name in dict.fromkeys(names.CAPACITIES)
        if name != "nope" and random.random() < usual_share
    }
    if random.random() < 0.5:
        made["allowMultipleAllocations"] = random.random() < 0.5
    return made


def _qualified(random: Random, name: str) -> str:
    return name if random.random() < 0.93 else f"{random.choice(names.DOMAINS)}/{name}"


def _attribute(random: Random, name: str, usual: str) -> dict[str, Any]:
    form = random.choice(tuple(_FORM_OF_KIND.values())) if random.random() < 0.05 else usual
    if form.endswith("s"):
        return {form: [_scalar(random, form[:-1], name) for _ in range(random.choice((0, 1, 2, 2, 3, 5, 20)))]}
    return {form: _scalar(random, form, name)}


def _scalar(random: Random, form: str, name: str) -> str | int | bool:
    match form:
        case "string":
            return random.choice(_TEXTS.get(name, values.WORDS))
        case "int":
            return random.choice(values.INTEGERS)
        case "bool":
            return random.random() < 0.5
        case _:
            return random.choice(values.VERSIONS)


def _quantity(random: Random, name: str) -> str:
    match name:
        case "big":
            return random.choice(("9999999999999999999999G", "1e100", "123456789012345678901234567890", "9Ei", "-1e30"))
        case "tiny":
            return random.choice(("1n", "999n", "0.5", "1u", "500m", "0.0000000001", "-1n", "1.5n"))
        case _:
            return random.choice(values.QUANTITIES)
