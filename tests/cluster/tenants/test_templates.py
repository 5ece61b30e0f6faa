"""The templates of claims that a policy has in the namespaces of its tenants: usable, repaired, gone with the label."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from cluster.tenants.bed import POLICIES, RESOURCE, Bed, claim_spec, fresh, pod, request
from cluster.tenants.test_upkeep import becomes, delete, says
from harness.eventually import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

MODES = {"search-exclusive", "search-timeslicing", "search-mps", "search-mig"}
VARIANTS: list[dict[str, Any]] = [
    {"name": "large", "mode": "MPS", "memory": "16384Mi", "threads": 50},
    {"name": "small", "mode": "MIG", "profile": "1g.10gb"},
]
ALL = MODES | {"search-large", "search-small"}
OTHERS = f"{RESOURCE}/namespaces/other/resourceclaimtemplates"
WITH_TEMPLATES = {"templates": True, "templateVariants": VARIANTS}


async def has(bed: Bed, *names: str, namespace: str = "search") -> None:
    """Until the namespace has these templates, and no others."""

    async def look() -> None:
        path = f"{RESOURCE}/namespaces/{namespace}/resourceclaimtemplates"
        items = (await bed.admin.ask("GET", path)).must()["items"]
        assert {item["metadata"]["name"] for item in items} == set(names)

    await eventually(look)


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def wanted(bed: Bed) -> AsyncIterator[None]:
    """The tenants' policy has templates."""
    (await bed.admin.ask("PATCH", f"{POLICIES}/search", {"spec": {"classes": WITH_TEMPLATES}})).must()
    await has(bed, *ALL)
    yield
    await bed.set_label("other", "ads")
    without = dict.fromkeys(WITH_TEMPLATES)
    (await bed.admin.ask("PATCH", f"{POLICIES}/search", {"spec": {"classes": without}})).must()
    for namespace in ("search", "other"):
        await has(bed, namespace=namespace)


async def of_template(bed: Bed, template: str) -> Any:
    """What a pod of a tenant is allocated by it."""
    name = fresh("pod")
    body = pod(name)
    body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": template}]
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    (await bed.tenant.ask("POST", bed.tenant.pods(), body)).must()
    assert (await bed.tenant.scheduled(name))["status"] == "True"
    statuses = (await bed.tenant.ask("GET", bed.tenant.pods(name))).must()["status"]["resourceClaimStatuses"]
    claim = (await bed.tenant.ask("GET", bed.tenant.claims(statuses[0]["resourceClaimName"]))).must()
    [result] = claim["status"]["allocation"]["devices"]["results"]
    return result


async def test_a_tenant_uses_them(bed: Bed) -> None:
    usual = await of_template(bed, "search-mps")
    assert (usual["device"], usual["consumedCapacity"]["memory"]) == ("gpu-42-mps", "4Gi")
    large = await of_template(bed, "search-large")
    assert (large["device"], large["consumedCapacity"]["memory"], large["consumedCapacity"]["threads"]) == (
        "gpu-42-mps", "16Gi", "50"
    )  # fmt: skip
    whole = await of_template(bed, "search-exclusive")
    assert (whole["pool"], "consumedCapacity" in whole) == ("n1/search", False)


async def test_nobody_can_make_one_say_something_else(bed: Bed) -> None:
    path = f"{bed.tenant.templates()}/search-mps"
    before = (await bed.tenant.ask("GET", path)).must()
    edited = {"spec": {"spec": claim_spec(request("gpu.nvidia.com"))}}
    answer = await bed.tenant.ask("PATCH", path, edited)
    assert (answer.code, "immutable" in answer.says) == (422, True), answer
    # Made again with the marks of the policy, and with another text.
    (await bed.tenant.ask("DELETE", path)).must()
    marks = {key: before["metadata"][key] for key in ("name", "labels", "ownerReferences")}
    answer = await bed.tenant.ask("POST", bed.tenant.templates(), {"metadata": marks} | edited)
    if answer.code != 409:
        answer.must()
    await becomes(bed.tenant, path, lambda found: found and found["spec"] == before["spec"])


async def test_they_are_repaired(bed: Bed) -> None:
    path = f"{bed.tenant.templates()}/search-large"
    before = (await bed.tenant.ask("GET", path)).must()
    (await bed.tenant.ask("PATCH", path, {"metadata": {"labels": None}})).must()
    await becomes(bed.tenant, path, lambda found: found and found["metadata"].get("labels"))
    assert (await bed.tenant.ask("GET", path)).must()["metadata"]["uid"] == before["metadata"]["uid"]
    (await bed.tenant.ask("PATCH", path, {"metadata": {"ownerReferences": None}})).must()
    # By its label alone it may be anybody's.
    await says(bed, "search", "Degraded", "ResourceClaimTemplateExists")
    (await bed.tenant.ask("DELETE", path)).must()
    await becomes(bed.tenant, path, lambda found: found and found["spec"] == before["spec"])
    await says(bed, "search", "Degraded", "NotDegraded")


async def test_they_come_and_go_with_the_label(bed: Bed) -> None:
    await bed.set_label("other", "search")
    await has(bed, *ALL, namespace="other")
    await bed.set_label("other", "ads")
    await has(bed, namespace="other")
    await has(bed, *ALL)


async def test_they_go_with_the_mode_and_the_variant(bed: Bed) -> None:
    fewer = {"spec": {"offers": {"mig": None}, "classes": {"templateVariants": VARIANTS[:1]}}}
    (await bed.admin.ask("PATCH", f"{POLICIES}/search", fewer)).must()
    await has(bed, *ALL - {"search-mig", "search-small"})
    smaller = [VARIANTS[0] | {"memory": "8Gi"}]
    (await bed.admin.ask("PATCH", f"{POLICIES}/search", {"spec": {"classes": {"templateVariants": smaller}}})).must()

    def asks_for_less(found: Any) -> bool:
        exactly = found and found["spec"]["spec"]["devices"]["requests"][0]["exactly"]
        return bool(found) and exactly["capacity"]["requests"] == {"memory": "8Gi", "threads": "50"}

    await becomes(bed.admin, f"{bed.tenant.templates()}/search-large", asks_for_less)
    more = {"spec": {"offers": {"mig": {"profiles": ["1g.10gb"]}}, "classes": WITH_TEMPLATES}}
    (await bed.admin.ask("PATCH", f"{POLICIES}/search", more)).must()
    await has(bed, *ALL)


async def test_one_of_somebody_else_is_left_alone(bed: Bed) -> None:
    theirs = {"metadata": {"name": "search-large"}, "spec": {"spec": claim_spec(request("gpu.nvidia.com"))}}
    (await bed.admin.ask("POST", OTHERS, theirs)).must()
    try:
        await bed.set_label("other", "search")
        await says(bed, "search", "Degraded", "ResourceClaimTemplateExists")
        await has(bed, *ALL, namespace="other")
        there = (await bed.admin.ask("GET", f"{OTHERS}/search-large")).must()
        assert there["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "gpu.nvidia.com"
    finally:
        await delete(bed, f"{OTHERS}/search-large")
    await becomes(bed.admin, f"{OTHERS}/search-large", lambda found: found and found["metadata"].get("labels"))
    await says(bed, "search", "Degraded", "NotDegraded")


async def test_at_rest_nothing_is_written(bed: Bed) -> None:
    """Also where the API server writes an amount in other words, and after a restart."""

    async def written() -> float:
        return sum(
            [await bed.operator.metric(f'gpusharing_intents_total{{kind="{kind}"') for kind in ("Create", "Delete")]
        )

    await bed.operator.restart()
    before = await written()
    for team in ("x", "y", "ads"):
        await bed.set_label("other", team)
        await asyncio.sleep(0.3)
    assert await written() == before == 0
