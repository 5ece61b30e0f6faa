"""What Kueue has to know of policies, by tables of policies."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from gpusharing import cel
from gpusharing.api.dra import Namespace
from gpusharing.api.meta import NamespaceMeta
from gpusharing.core.policies.policy import ExaminedPolicy, examine
from gpusharing.exporting.charging import Charge
from gpusharing.exporting.kueue import CAPACITY_GATE, MOST_MAPPINGS, export
from gpusharing.exporting.queues import Export
from gpusharing.findings import exporting as findings
from gpusharing.findings.finding import Entry
from gpusharing.validating.policies import read_policy
from harness import workloads

WHOLE: Final[Mapping[str, Any]] = {"exclusive": {}}
SHARED: Final = {"timeSlicing": {"maxClients": 4}}
WALLED: Final = {"timeSlicing": {"maxClients": 4, "memory": {"default": "8Gi"}}}
MPS: Final = {"mps": {"maxClients": 8, "memory": {"default": "8Gi"}, "threads": {"default": 25}}}
MIG: Final = {"mig": {"profiles": ["1g.10gb", "3g.40gb"]}}
LAYOUT: Final = {"mig": {"layout": {"1g.10gb": 7}}}
TEAM: Final = {"matchLabels": {"team": "a"}}


def policy(name: str = "p", offers: Mapping[str, Any] = WHOLE, **spec: Any) -> ExaminedPolicy:
    found = read_policy(workloads.policy(name, offers=offers, **spec))
    assert found is not None
    return examine(found, minor=cel.NEWEST_MINOR)


def namespace(name: str, deleted: str | None = None, **labels: str) -> Namespace:
    return Namespace(metadata=NamespaceMeta(name=name, labels=labels, deletion_timestamp=deleted))


def bodies(found: Export, kind: str) -> list[Mapping[str, Any]]:
    return [one.body for one in found.documents if one.body["kind"] == kind]


def mappings(found: Export) -> list[Any]:
    [configuration] = bodies(found, "Configuration")
    return list(configuration["resources"]["deviceClassMappings"])


def quotas(found: Export) -> dict[str, dict[str, int]]:
    """By queue and resource."""
    return {
        queue["metadata"]["name"]: {
            one["name"]: one["nominalQuota"] for one in queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
        }
        for queue in bodies(found, "ClusterQueue")
    }


def codes(found: Export) -> list[str]:
    return [one.code for one in found.findings]


def code(*entries: Entry) -> list[str]:
    return [one.code for one in entries]


NO_QUOTA, ALIKE = findings.NO_QUOTA, findings.CHARGED_ALIKE
IN_DEVICES, REFUSED = findings.CHARGED_IN_DEVICES, findings.RESOURCE_REFUSED


@pytest.mark.parametrize(
    ("offers", "charge", "resource", "source", "said"),
    [
        (WHOLE, Charge.DEVICES, "gpusharing.dev/p-exclusive", None, [NO_QUOTA]),
        (WHOLE, Charge.SHARES, "gpusharing.dev/p-exclusive", None, [NO_QUOTA]),
        (WHOLE, Charge.MEMORY, "gpusharing.dev/p-exclusive", None, [NO_QUOTA, IN_DEVICES]),
        (SHARED, Charge.DEVICES, "gpusharing.dev/p-timeslicing", None, [NO_QUOTA, ALIKE]),
        (SHARED, Charge.SHARES, "shares.gpusharing.dev/p-timeslicing", ("capacity", "shares"), [NO_QUOTA]),
        (SHARED, Charge.MEMORY, "gpusharing.dev/p-timeslicing", None, [NO_QUOTA, IN_DEVICES]),
        (WALLED, Charge.MEMORY, "memory.gpusharing.dev/p-timeslicing", ("capacity", "memory"), [NO_QUOTA]),
        (MPS, Charge.DEVICES, "gpusharing.dev/p-mps", None, [NO_QUOTA, ALIKE]),
        (MPS, Charge.SHARES, "shares.gpusharing.dev/p-mps", ("capacity", "shares"), [NO_QUOTA]),
        (MPS, Charge.MEMORY, "memory.gpusharing.dev/p-mps", ("capacity", "memory"), [NO_QUOTA]),
        (MIG, Charge.DEVICES, "gpusharing.dev/p-mig", None, [NO_QUOTA, ALIKE]),
        (MIG, Charge.SHARES, "gpusharing.dev/p-mig", None, [NO_QUOTA, ALIKE]),
        (MIG, Charge.MEMORY, "memory.gpusharing.dev/p-mig", ("counter", "memory"), [NO_QUOTA]),
        (LAYOUT, Charge.DEVICES, "gpusharing.dev/p-mig", None, [NO_QUOTA]),
        (LAYOUT, Charge.MEMORY, "gpusharing.dev/p-mig", None, [NO_QUOTA, IN_DEVICES]),
    ],
)
def test_each_mode_is_charged_in_what_kueue_can_read(
    offers: Any, charge: Charge, resource: str, source: tuple[str, str] | None, said: Sequence[Entry]
) -> None:
    found = export([policy(offers=offers)], (), charge)
    [mapping] = mappings(found)
    assert mapping["name"] == resource
    assert mapping["deviceClassNames"] == [resource.partition("/")[2]]
    sources = [(kind, read["name"]) for one in mapping.get("sources", ()) for kind, read in one.items()]
    assert sources == ([source] if source else [])
    assert codes(found) == code(*said)


def test_a_source_reads_devices_of_one_mode_only() -> None:
    [mapping] = mappings(export([policy(offers={**WHOLE, **MPS})], (), Charge.MEMORY))[1:]
    [source] = mapping["sources"]
    expression = source["capacity"]["deviceSelector"]["cel"]["expression"]
    assert expression == 'device.attributes["gpusharing.dev"].?sharing.orValue("") == "MPS"'
    assert source["capacity"]["driver"] == "gpu.nvidia.com"


@pytest.mark.parametrize(
    ("offers", "charge", "needed"),
    [(MPS, Charge.DEVICES, False), (MPS, Charge.MEMORY, True), (MIG, Charge.MEMORY, False), (SHARED, "shares", True)],
)
def test_the_alpha_gate_is_set_only_where_a_capacity_is_read(offers: Any, charge: Charge, needed: bool) -> None:
    [configuration] = bodies(export([policy(offers=offers)], (), Charge(charge)), "Configuration")
    assert configuration.get("featureGates", {}) == ({CAPACITY_GATE: True} if needed else {})


def test_each_namespace_of_tenants_has_a_queue_with_the_quotas_of_its_policies() -> None:
    tenants = {"namespaces": TEAM, "quota": {"exclusive": 2, "mps": 0}}
    found = export(
        [policy("x", {**WHOLE, **MPS}, tenants=tenants), policy("w", SHARED, tenants={"namespaces": TEAM})],
        [namespace("b", team="a"), namespace("a", team="a"), namespace("c"), namespace("d", "2026-11-20", team="a")],
        Charge.DEVICES,
    )
    each = {"gpusharing.dev/w-timeslicing": 0, "gpusharing.dev/x-exclusive": 2, "gpusharing.dev/x-mps": 0}
    assert quotas(found) == {"namespace-a": each, "namespace-b": each}
    selectors = [queue["spec"]["namespaceSelector"] for queue in bodies(found, "ClusterQueue")]
    assert selectors == [{"matchLabels": {"kubernetes.io/metadata.name": name}} for name in "ab"]
    queues = [(one["metadata"]["namespace"], one["spec"]["clusterQueue"]) for one in bodies(found, "LocalQueue")]
    assert queues == [("a", "namespace-a"), ("b", "namespace-b")]
    # A quota of 0 is one: only what policy w does not limit is to be filled in.
    assert [one.values["resource"] for one in found.findings if one.entry is NO_QUOTA] == [
        "gpusharing.dev/w-timeslicing"
    ]
    comments = [comment for one in found.documents for comment in one.comments if comment.startswith("Replace")]
    assert comments == 2 * ["Replace the 0: policy w sets no tenants.quota.timeSlicing."]


@pytest.mark.parametrize(
    ("tenants", "selector", "quota"),
    [({}, {}, 0), ({"namespaces": TEAM, "quota": {"exclusive": 3}}, TEAM, 3)],
    ids=["no tenants", "no known tenant"],
)
def test_a_policy_without_known_namespaces_has_a_queue_itself(tenants: Any, selector: Any, quota: int) -> None:
    found = export([policy(tenants=tenants)], [namespace("other")], Charge.DEVICES)
    assert quotas(found) == {"policy-p": {"gpusharing.dev/p-exclusive": quota}}
    [queue] = bodies(found, "ClusterQueue")
    assert queue["spec"]["namespaceSelector"] == selector
    assert bodies(found, "LocalQueue") == []


def test_a_quota_of_devices_is_none_of_memory() -> None:
    tenants = {"namespaces": TEAM, "quota": {"mps": 8}}
    for charge, quota in ((Charge.DEVICES, 8), (Charge.SHARES, 8), (Charge.MEMORY, 0)):
        found = export([policy(offers=MPS, tenants=tenants)], [namespace("a", team="a")], charge)
        assert list(quotas(found)["namespace-a"].values()) == [quota]


@pytest.mark.parametrize("quota", [0, 8])
def test_it_is_said_why_a_quota_is_not_taken_over(quota: int) -> None:
    tenants = {"namespaces": TEAM, "quota": {"mps": quota}}
    [finding] = export([policy(offers=MPS, tenants=tenants)], (), Charge.MEMORY).findings
    assert finding.values["why"] == "tenants.quota.mps of policy p counts devices, not memory"


@pytest.mark.parametrize(
    ("charge", "shares", "said"),
    [(Charge.DEVICES, 1, []), (Charge.DEVICES, 2, [ALIKE]), (Charge.SHARES, 2, [])],
)
def test_shares_matter_only_where_a_claim_may_take_several(charge: Charge, shares: int, said: list[Entry]) -> None:
    tenants = {"namespaces": TEAM, "quota": {"timeSlicing": 8}, "allow": {"maxShares": shares}}
    found = export([policy(offers=SHARED, tenants=tenants)], (), charge)
    assert codes(found) == code(*said)


@pytest.mark.parametrize(("charge", "said"), [(Charge.DEVICES, False), (Charge.SHARES, True), (Charge.MEMORY, False)])
def test_extended_resources_of_classes_with_sources_are_reported(charge: Charge, said: bool) -> None:
    found = export(
        [policy(offers=SHARED, classes={"extendedResources": {"timeSlicing": "example.com/gpu"}})], (), charge
    )
    assert (REFUSED.code in codes(found)) == said


def test_policies_without_classes_are_reported() -> None:
    wrong = {"selectors": [{"cel": {"expression": "nonsense"}}]}
    found = export([policy("b", classes={"create": False}), policy("c", gpus=wrong), policy("a")], (), Charge.DEVICES)
    assert [one["name"] for one in mappings(found)] == ["gpusharing.dev/a-exclusive"]
    assert [(one.code, one.object.name) for one in found.findings[:2]] == [
        (findings.NO_CLASSES.code, "b"),
        (findings.NO_CLASSES.code, "c"),
    ]
    assert export([policy("b", classes={"create": False})], (), Charge.DEVICES).documents == ()


@pytest.mark.parametrize("number", [MOST_MAPPINGS, MOST_MAPPINGS + 1])
def test_more_classes_than_kueue_takes_are_an_error(number: int) -> None:
    found = export([policy(f"p{index:02}") for index in range(number)], (), Charge.DEVICES)
    assert (findings.TOO_MANY_CLASSES.code in codes(found)) == (number > MOST_MAPPINGS)


def test_the_order_of_what_is_given_does_not_matter() -> None:
    policies = [policy(name, {**WHOLE, **SHARED}, tenants={"namespaces": TEAM}) for name in "abc"]
    namespaces = [namespace(name, team="a") for name in "xyz"]
    expected = export(policies, namespaces, Charge.DEVICES)
    assert export(policies[::-1], namespaces[::-1], Charge.DEVICES) == expected
