"""Policies that cannot be acted on."""

import pytest

from building import MINOR, policy
from gpusharing.core.acceptance import examine

EXPENSIVE = (
    "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(a, device.attributes.all(b, device.attributes[b].all(c, "
    "device.attributes.all(d, device.attributes[d].all(e, true)))))"
)


@pytest.mark.parametrize(
    ("selectors", "why"),
    [
        pytest.param(["true", "nonsense"], "selectors[1].cel.expression is right: line 1, column 1: ", id="which one"),
        pytest.param(["device.driver"], "a selector must be true or false", id="no answer of yes or no"),
        pytest.param([EXPENSIVE], "units, and Kubernetes allows 1,000,000", id="more than the API server takes"),
    ],
)
def test_selectors_that_no_device_class_could_have(selectors: list[str], why: str) -> None:
    objection = examine(policy(selectors=selectors), minor=MINOR).objection
    assert objection is not None
    assert objection.reason == "InvalidSelector"
    assert why in objection.message


def test_selectors_are_read_as_the_clusters_kubernetes_reads_them() -> None:
    by_backtick = policy(selectors=['device.attributes["gpu.nvidia.com"].`index` == 0'])
    assert examine(by_backtick, minor=37).objection is None
    assert examine(by_backtick, minor=36).objection is not None


def test_whoever_selects_nothing_in_particular_is_accepted() -> None:
    candidate = examine(policy(), minor=MINOR)
    assert (candidate.objection, candidate.selectors) == (None, ())
