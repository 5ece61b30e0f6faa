"""Whether a claim may have what it was allocated, and what it is told if not."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from building import claim, decided, policy, result
from gpusharing.api.dra import AllocationResult
from gpusharing.api.meta import LabelSelector
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.tenants import Allowance, Tenants
from gpusharing.core.verdicts.tenancy import Held, Registry, UnknownNamespaceError, in_words, objections

SEARCH: Final = policy("search", tenants=Tenants(namespaces=LabelSelector(match_labels={"team": "search"})))
ADS: Final = policy("ads", tenants=Tenants(namespaces=LabelSelector(match_labels={"team": "ads"})))
POLICIES: Final = {"search": SEARCH, "ads": ADS}
NAMESPACES: Final = {"mine": {"team": "search"}, "other": {"team": "ads"}, "plain": {}}

NOT_A_TENANT: Final = (
    "SharingPolicy search: namespace {} is not one of its tenants (spec.tenants.namespaces: team=search), and device "
    "{} is reserved for them"
)


def gpu(winner: SharingPolicy | None, *, restricted: bool = False, allow: Allowance | None = None) -> GpuSharing:
    return decided(0, winner).model_copy(update={"restricted": restricted, "allow": allow})


def said(
    namespace: str,
    results: Sequence[AllocationResult],
    of: GpuSharing,
    *,
    policies: Mapping[str, SharingPolicy] = POLICIES,
) -> list[str]:
    held = [Held(one, of, None) for one in results]
    tenants = {name: policy.spec.tenants.namespaces for name, policy in policies.items()}
    return objections(claim("c1", *results, namespace=namespace), held, Registry(tenants, NAMESPACES))


@pytest.mark.parametrize("namespace", ["mine", "other", "plain", "nobody-knows"])
def test_what_is_for_everybody_is_for_everybody(namespace: str) -> None:
    assert said(namespace, [result()], gpu(None)) == []
    assert said(namespace, [result()], gpu(SEARCH)) == []


@pytest.mark.parametrize(("namespace", "allowed"), [("mine", True), ("other", False), ("plain", False)])
@pytest.mark.parametrize(
    ("pool", "restricted"),
    [
        ("n1/search", True),
        # The GPU has changed hands since, or was not decided about yet.
        ("n1/search", False),
        # It was for everybody when the claim got it.
        ("n1", True),
    ],
)
def test_what_is_for_tenants_is_for_tenants(namespace: str, pool: str, *, allowed: bool, restricted: bool) -> None:
    told = said(namespace, [result(pool=pool)], gpu(SEARCH, restricted=restricted))
    assert told == ([] if allowed else [NOT_A_TENANT.format(namespace, f"{pool}/gpu-0")])


@pytest.mark.parametrize("namespace", ["mine", "other"])
def test_while_a_gpu_changes_hands_nobody_new_comes(namespace: str) -> None:
    assert len(said(namespace, [result(pool="n1/search")], gpu(ADS, restricted=True))) == 1


def test_each_policy_objects_once() -> None:
    both = [result("gpu-0", pool="n1/search"), result("gpu-1", pool="n1/search"), result("gpu-2", pool="n1/ads")]
    assert [text.split(":")[0] for text in said("plain", both, gpu(None))] == [
        "SharingPolicy ads",
        "SharingPolicy search",
    ]


def test_an_unknown_namespace_is_no_tenant_and_no_stranger() -> None:
    with pytest.raises(UnknownNamespaceError):
        said("nobody-knows", [result(pool="n1/search")], gpu(SEARCH, restricted=True))


def test_nobody_is_a_tenant_of_a_policy_that_does_not_exist() -> None:
    assert said("mine", [result(pool="n1/search")], gpu(None), policies={}) == [
        "device n1/search/gpu-0 is reserved for tenants of SharingPolicy search, but that policy does not exist"
    ]


def test_nobody_is_known_to_be_a_tenant_of_a_suspended_policy_that_the_guards_do_not_know() -> None:
    one = result(pool="n1/search")
    found = objections(
        claim("c1", namespace="mine"), [Held(one, gpu(None), None)], Registry({"search": None}, NAMESPACES)
    )
    assert "".join(found) == (
        "device n1/search/gpu-0 is reserved for tenants of SharingPolicy search, but that policy is suspended, and "
        "the admission policies do not have its tenants"
    )


def test_admin_access_is_for_nobody_on_what_is_for_tenants() -> None:
    looks = [result(pool="n1/search", admin_access=True)]
    [told] = said("mine", looks, gpu(SEARCH, restricted=True))
    assert told == (
        "SharingPolicy search: device n1/search/gpu-0: adminAccess is not allowed on devices reserved for "
        "tenants (spec.tenants): remove it from the request"
    )
    assert said("mine", [result(admin_access=True)], gpu(SEARCH)) == []


def shares(device: str, *amounts: Mapping[str, str], **more: Any) -> list[AllocationResult]:
    return [result(device, request=f"r{index}", consumed=amount, **more) for index, amount in enumerate(amounts)]


@pytest.mark.parametrize(
    ("allow", "results", "field"),
    [
        (Allowance(max_memory="20Gi"), shares("gpu-0-mps", {"memory": "20Gi"}), None),
        (Allowance(max_memory="20Gi"), shares("gpu-0-mps", {"memory": "21474836481"}), "maxMemory"),
        (Allowance(max_memory="20Gi"), shares("gpu-0-mps", {"memory": "10Gi"}, {"memory": "10241Mi"}), "maxMemory"),
        (Allowance(max_memory="20Gi"), shares("gpu-0-timeslicing", {"memory": "1e12"}), "maxMemory"),
        (Allowance(max_memory="20Gi"), shares("gpu-0-timeslicing", {"memory": "0"}), None),
        (Allowance(max_memory="20Gi"), shares("gpu-0", {"memory": "80Gi"}), None),
        (Allowance(max_memory="20Gi"), shares("gpu-0-mps", {"memory": "80Gi"}, admin_access=True), None),
        (Allowance(max_threads=50), shares("gpu-0-mps", {"threads": "50"}), None),
        (Allowance(max_threads=50), shares("gpu-0-mps", {"threads": "30"}, {"threads": "30"}), "maxThreads"),
        (Allowance(max_threads=50), shares("gpu-0-mps", {"threads": "50500m"}), "maxThreads"),
        (Allowance(max_shares=1), shares("gpu-0-mps", {"shares": "1"}), None),
        (Allowance(max_shares=1), shares("gpu-0-timeslicing", {"shares": "1"}, {"shares": "1"}), "maxShares"),
        (Allowance(max_shares=2), shares("gpu-0-timeslicing", {"shares": "8"}), "maxShares"),
        # What each device has counts by itself.
        (Allowance(max_shares=1), [*shares("gpu-0-mps", {"shares": "1"}), *shares("gpu-1-mps", {"shares": "1"})], None),
        (Allowance(max_shares=1), shares("gpu-0-mps", {}), None),
        (Allowance(), shares("gpu-0-mps", {"shares": "60"}), None),
        (None, shares("gpu-0-mps", {"shares": "60"}), None),
    ],
)
def test_a_claim_has_no_more_of_a_device_than_the_policy_allows(
    allow: Allowance | None, results: Sequence[AllocationResult], field: str | None
) -> None:
    told = said("plain", results, gpu(SEARCH, allow=allow))
    assert [text.partition("spec.tenants.allow.")[2].partition(" ")[0] for text in told] == ([field] if field else [])


def test_the_message_says_which_policy_allows_how_much() -> None:
    [told] = said("mine", shares("gpu-0-mps", {"threads": "60"}), gpu(SEARCH, allow=Allowance(max_threads=50)))
    assert told == (
        "SharingPolicy search: the claim was allocated more threads of device n1/gpu-0-mps than "
        "spec.tenants.allow.maxThreads permits (50)"
    )


def test_an_amount_that_cannot_be_read_is_not_allowed() -> None:
    told = said("mine", shares("gpu-0-mps", {"shares": "many"}), gpu(SEARCH, allow=Allowance(max_shares=1)))
    assert told == ["device n1/gpu-0-mps: capacity shares: 'many' is not a quantity such as 8Gi"]


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ({}, ""),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        (
            {
                "matchLabels": {"a": "1"},
                "matchExpressions": [
                    {"key": "b", "operator": "In", "values": ["x", "y"]},
                    {"key": "c", "operator": "NotIn", "values": ["z"]},
                    {"key": "d", "operator": "Exists"},
                    {"key": "e", "operator": "DoesNotExist"},
                    {"key": "f", "operator": "In", "values": ["x"]},
                ],
            },
            "a=1,b in (x,y),c notin (z),d,!e,f=x",
        ),
    ],
)
def test_a_selector_in_words(selector: Mapping[str, Any], words: str) -> None:
    assert in_words(LabelSelector.model_validate(selector)) == words


def test_a_long_selector_does_not_fill_the_message() -> None:
    assert len(in_words(LabelSelector(match_labels={f"label-{number}": "x" for number in range(64)}))) < 210
