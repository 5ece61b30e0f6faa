"""Policies that cannot be acted on."""

import pytest

from building import MINOR, policy
from gpusharing.api.meta import LabelSelector
from gpusharing.api.sharing.policy import UnreadablePolicy
from gpusharing.api.sharing.policy_status import LastReady, SharingPolicyStatus
from gpusharing.api.sharing.rollout import Rollout, RolloutMode
from gpusharing.api.sharing.tenants import Tenants
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


OLD, NEW = (LabelSelector(match_labels={"team": team}) for team in ("old", "new"))
WAS_OLD = {"tenants": {"namespaces": {"matchLabels": {"team": "old"}}}}


@pytest.mark.parametrize(
    ("rollout", "last", "tenants"),
    [
        pytest.param(Rollout(), None, NEW, id="a new policy"),
        pytest.param(Rollout(), WAS_OLD, NEW, id="an edit"),
        pytest.param(Rollout(paused=True), WAS_OLD, OLD, id="an edit while it is paused"),
        pytest.param(Rollout(mode=RolloutMode.PLAN), WAS_OLD, OLD, id="a plan"),
        pytest.param(Rollout(paused=True), None, NEW, id="paused before it was ever in force"),
        pytest.param(Rollout(paused=True), {}, LabelSelector(), id="paused when it was for everybody"),
        pytest.param(Rollout(paused=True), {"tenants": "x"}, None, id="a status that nobody of ours wrote"),
    ],
)
def test_tenants_are_those_that_are_in_force(
    rollout: Rollout, last: dict[str, object] | None, tenants: LabelSelector | None
) -> None:
    status = SharingPolicyStatus(last_ready=LastReady(generation=1, spec=last) if last is not None else None)
    item = policy(rollout=rollout, tenants=Tenants(namespaces=NEW), status=status)
    assert examine(item, minor=MINOR).tenants == tenants


def test_a_policy_that_is_not_accepted_keeps_its_tenants() -> None:
    status = SharingPolicyStatus(last_ready=LastReady(generation=1, spec=WAS_OLD))
    item = policy(selectors=["nonsense"], tenants=Tenants(namespaces=NEW), status=status)
    assert examine(item, minor=MINOR).tenants == OLD


def test_nobody_can_tell_the_tenants_of_what_cannot_be_read() -> None:
    assert examine(UnreadablePolicy.of({"name": "x", "uid": "u", "resourceVersion": "1"}), minor=MINOR).tenants is None
