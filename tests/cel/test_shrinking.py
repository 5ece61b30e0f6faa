"""What differs is made small."""

import pytest

from cel.generator.cases import case
from cel.oracle_process import Device
from cel.shrinking import shrink


@pytest.mark.parametrize("feature", [".isGreaterThan(", "lists.range(", ".optMap(", ".getQuery(", "timestamp("])
def test_nothing_is_left_but_what_makes_the_difference(feature: str) -> None:
    def still_differs(expression: str, device: Device) -> bool:
        return feature in expression and "model" in device.get("attributes", {})

    trees = (case(3, number).tree for number in range(3_000))
    large = [tree for tree in trees if feature in str(tree) and len(str(tree)) > 100]
    assert large
    device = case(3, 1).devices[0] | {"attributes": {"model": {"string": "a"}, "index": {"int": 1}}}
    for tree in large[:5]:
        smallest, poorest = shrink(tree, device, still_differs)
        assert str(smallest) == feature
        assert poorest == {"driver": device["driver"], "attributes": {"model": {"string": "a"}}}
