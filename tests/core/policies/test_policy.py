"""Policies that cannot be acted on."""

import pytest

from building import MINOR, policy
from gpusharing.core.policies.policy import examine

EXPENSIVE = (
    "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(a, device.attributes.all(b, device.attributes[b].all(c, "
    "device.attributes.all(d, device.attributes[d].all(e, true)))))"
)

NUMBERS = list(range(45))
COSTLY = f"{NUMBERS}.all(x, {NUMBERS}.all(y, x + y >= 0))"
"""14,816 units."""
USUAL = (
    'device.attributes["gpu.nvidia.com"].productName.matches("^NVIDIA (A100|H100|H200|B200)( .*)?$") && '
    'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("40Gi"))'
)


@pytest.mark.parametrize(
    ("selectors", "why"),
    [
        pytest.param(["true", "nonsense"], "policy stay unchanged: line 1, column 1: ", id="which one"),
        pytest.param(["device.driver"], "a selector must be true or false", id="no answer of yes or no"),
        pytest.param([EXPENSIVE], "units, but Kubernetes allows 1,000,000", id="more than the API server takes"),
        pytest.param([COSTLY] * 8, "118,528 units together, and a policy may cost 100,000;", id="too much together"),
    ],
)
def test_selectors_that_no_device_class_could_have(selectors: list[str], why: str) -> None:
    objection = examine(policy(selectors=selectors), minor=MINOR).objection
    assert objection is not None
    assert objection.reason == "InvalidSelector"
    assert why in objection.message


@pytest.mark.parametrize("selectors", [[COSTLY] * 6, [USUAL] * 32], ids=["within the limit", "as many as there may be"])
def test_selectors_within_the_limit_are_accepted(selectors: list[str]) -> None:
    assert examine(policy(selectors=selectors), minor=MINOR).objection is None


def test_selectors_are_read_as_the_clusters_kubernetes_reads_them() -> None:
    by_backtick = policy(selectors=['device.attributes["gpu.nvidia.com"].`index` == 0'])
    assert examine(by_backtick, minor=37).objection is None
    assert examine(by_backtick, minor=36).objection is not None


def test_whoever_selects_nothing_in_particular_is_accepted() -> None:
    examined = examine(policy(), minor=MINOR)
    assert (examined.objection, examined.selectors) == (None, ())
