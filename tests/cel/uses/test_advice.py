"""Who asks an attribute for an amount is told how to ask for a capacity."""

import pytest

from gpusharing.cel.checking.check import check
from gpusharing.cel.syntax.parse import parse
from gpusharing.cel.uses.advice import capacity_instead

MEANT = [
    (
        'device.attributes["gpu.nvidia.com"].memory >= "16Gi"',
        'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("16Gi")) >= 0',
    ),
    (
        'true && [1].all(x, "16Gi" < device.attributes["gpu.nvidia.com"]["memory"])',
        'quantity("16Gi").compareTo(device.capacity["gpu.nvidia.com"]["memory"]) < 0',
    ),
    (
        "device.attributes[device.driver].memory == '1'",
        'device.capacity[device.driver].memory.compareTo(quantity("1")) == 0',
    ),
    ("device.attributes.d.memory.isGreaterThan(quantity('1'))", "device.capacity.d.memory"),
    ("device.attributes.d.memory > 5", "device.capacity.d.memory"),
    ("{'a': [device.attributes.d.memory]}.a[0] == 1", "device.capacity.d.memory"),
    ("device.attributes.d.index > 5", ""),
    ("'a' == 'memory'", ""),
    ("device.capacity.d.memory == quantity('1')", ""),
]


@pytest.mark.parametrize(("text", "meant"), MEANT)
def test_an_attribute_that_must_be_a_capacity_is_recognized(text: str, meant: str) -> None:
    checked = check(parse(text, 37), text, 37)
    assert capacity_instead(checked.root, "memory") == meant
    if meant.endswith(" 0"):
        check(parse(meant, 37), meant, 37)
