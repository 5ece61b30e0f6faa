"""Devices: from a ResourceSlice's form to what expressions see."""

import json
import sys
from typing import Any, Final

import pytest

from gpusharing import cel

ONE_OF_EACH: Final[dict[str, Any]] = {
    "text": {"string": "a"},
    "number": {"int": -5},
    "flag": {"bool": False},
    "version": {"version": "1.2.3-rc.1"},
    "texts": {"strings": ["a", "b"]},
    "numbers": {"ints": [1, 2]},
    "flags": {"bools": [True]},
    "versions": {"versions": ["1.0.0"]},
    "other.io/text": {"string": "b"},
}
CAPACITY: Final[dict[str, Any]] = {
    "memory": {"value": "80Gi"},
    "other.io/shares": {"value": "500m", "requestPolicy": {"default": "1"}},
    "cores": {"value": 108},
}


def matches(device: cel.Device, expression: str, minor: int = 37) -> bool:
    return cel.compile(expression, minor).match(device)


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "d.io" && !device.allowMultipleAllocations',
        'device.attributes["d.io"].text == "a" && device.attributes["other.io"].text == "b"',
        'device.attributes["d.io"].number == -5 && device.attributes["d.io"].flag == false',
        'device.attributes["d.io"].version.isLessThan(semver("1.2.3"))',
        'device.attributes["d.io"].texts == ["a", "b"] && device.attributes["d.io"].numbers == [1, 2]',
        'device.attributes["d.io"].flags[0] && device.attributes["d.io"].versions[0].major() == 1',
        'device.capacity["d.io"].memory.compareTo(quantity("80Gi")) == 0',
        'device.capacity["other.io"].shares.compareTo(quantity("0.5")) == 0',
        'device.capacity["d.io"].cores.asInteger() == 108',
        'device.attributes["d.io"].size() == 8 && device.attributes.size() == 2 && device.capacity.size() == 2',
        'device.attributes["nope"].size() == 0 && !("nope" in device.attributes)',
    ],
)
def test_all_kinds_of_values_are_there(expression: str) -> None:
    assert matches(cel.Device("d.io", ONE_OF_EACH, CAPACITY), expression)


def test_allowing_multiple_allocations_is_said_on_the_device() -> None:
    assert matches(cel.Device("d.io", {}, {}, allow_multiple_allocations=True), "device.allowMultipleAllocations")


@pytest.mark.parametrize(
    ("attributes", "capacity"),
    [
        ({"version": {"version": "1.2"}}, {}),
        ({"versions": {"versions": ["1.0.0", "x"]}}, {}),
        ({"nothing": {}}, {}),
        ({"unknown": {"float": 1.5}}, {}),
        ({"number": {"int": "5"}}, {}),
        ({"number": {"int": True}}, {}),
        ({}, {"memory": {"value": "80 gibibytes"}}),
    ],
)
def test_a_device_that_kubernetes_cannot_hand_to_cel_fails_every_evaluation(attributes: Any, capacity: Any) -> None:
    device = cel.Device("d.io", attributes, capacity)
    program = cel.compile("true", 37)
    with pytest.raises(cel.EvaluationError, match=f"{'attribute' if attributes else 'capacity'} "):
        program.match(device)
    assert isinstance(program.measure(device)[0], cel.EvaluationError)


@pytest.mark.parametrize(("minor", "number_of_attributes"), [(35, 5), (36, 9)])
def test_kubernetes_before_1_36_does_not_see_lists(minor: int, number_of_attributes: int) -> None:
    expression = "device.attributes['d.io'].size() + device.attributes['other.io'].size()"
    device = cel.Device("d.io", ONE_OF_EACH, CAPACITY)
    assert matches(device, f"{expression} == {number_of_attributes}", minor)
    assert matches(device, f"has(device.attributes['d.io'].texts) == {'true' if minor >= 36 else 'false'}", minor)


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (cel.Device("d.io", ONE_OF_EACH, CAPACITY), True),
        (cel.Device("d" * 63, {}, {}), True),
        (cel.Device("d" * 64, {}, {}), False),
        (cel.Device("d.io", {"a": {"string": "x" * 65}}, {}), False),
        (cel.Device("d.io", {"a": {"strings": ["x" * 65]}}, {}), False),
        (cel.Device("d.io", {"a": {"ints": [1] * 49}}, {}), False),
        (cel.Device("d.io", {"a" * 33: {"int": 1}}, {}), False),
        (cel.Device("d.io", {"d" * 64 + "/a": {"int": 1}}, {}), False),
        (cel.Device("d.io", {f"a{i}": {"int": 1} for i in range(30)}, CAPACITY), False),
    ],
)
def test_devices_beyond_the_limits_of_the_api_are_known(device: cel.Device, expected: bool) -> None:
    assert device.is_within_limits is expected


def test_devices_share_what_they_have_in_common() -> None:
    form = json.dumps({"driver": "d.io", "attributes": {"model": {"string": "A100"}}, "capacity": CAPACITY})
    one, other = (cel.Device(**json.loads(form)) for _ in range(2))
    assert one.driver is other.driver
    assert one.attributes["d.io"]["model"] is other.attributes["d.io"]["model"]
    assert one.capacity["d.io"]["memory"] is other.capacity["d.io"]["memory"]


def test_a_device_is_small() -> None:
    attributes = {f"attribute{i}": {"string": f"value{i}"} for i in range(10)} | {
        f"version{i}": {"version": f"1.{i}.0"} for i in range(4)
    }
    device = cel.Device("gpu.nvidia.com", attributes, {"memory": {"value": "80Gi"}})
    maps = (device.attributes, *device.attributes.values(), device.capacity, *device.capacity.values())
    assert sys.getsizeof(device) + sum(map(sys.getsizeof, maps)) < 2048
