"""What Volcano has to know of policies, by tables of policies."""

from typing import Any, Final

import pytest

from exporting.test_kueue import LAYOUT, MPS, SHARED, TEAM, WHOLE, namespace, policy
from gpusharing.exporting.volcano import export
from gpusharing.findings.exporting import ZERO_IS_NO_LIMIT

ALLOW: Final = {"maxShares": 2, "maxThreads": 50}


@pytest.mark.parametrize(
    ("offers", "tenants", "capability"),
    [
        (
            WHOLE,
            {"quota": {"exclusive": 2}},
            {"deviceclass/p-exclusive": "2", "memory.deviceclass/p-exclusive": "2048Gi"},
        ),
        (
            SHARED,
            {"quota": {"timeSlicing": 3}},
            {
                "deviceclass/p-timeslicing": "3",
                "shares.deviceclass/p-timeslicing": "12",
                "memory.deviceclass/p-timeslicing": "3072Gi",
            },
        ),
        (
            MPS,
            {"quota": {"mps": 3}, "allow": ALLOW},
            {
                "deviceclass/p-mps": "3",
                "shares.deviceclass/p-mps": "6",
                "memory.deviceclass/p-mps": "3072Gi",
                "threads.deviceclass/p-mps": "150",
            },
        ),
        (LAYOUT, {"quota": {"mig": 7}}, {"deviceclass/p-mig": "7", "memory.deviceclass/p-mig": "7168Gi"}),
        ({**WHOLE, **MPS}, {"quota": {"mps": 0}}, {}),
        (WHOLE, {}, {}),
    ],
)
def test_a_queue_limits_devices_and_every_capacity_that_claims_may_ask_for(
    offers: Any, tenants: Any, capability: dict[str, str]
) -> None:
    found = export([policy(offers=offers, tenants={"namespaces": TEAM, **tenants})], [namespace("a", team="a")])
    [queue] = found.documents
    assert queue.body["metadata"]["name"] == "namespace-a"
    assert queue.body["spec"].get("capability", {}) == capability


def test_what_has_no_limit_is_said() -> None:
    tenants = {"namespaces": TEAM, "quota": {"mps": 0}}
    found = export([policy(offers={**WHOLE, **MPS}, tenants=tenants)], [namespace("a", team="a")])
    assert found.documents[0].comments == (
        "For jobs of namespace a.",
        "No limit of p-exclusive: tenants.quota.exclusive of policy p is not set.",
        "No limit of p-mps: tenants.quota.mps of policy p is 0, which Volcano takes for no limit.",
    )
    assert [one.entry for one in found.findings] == [ZERO_IS_NO_LIMIT]
