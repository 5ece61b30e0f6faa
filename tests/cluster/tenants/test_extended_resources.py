"""Old manifests that ask for nvidia.com/gpu get what a policy says; of two policies, what the higher one says."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from cluster.tenants.bed import CLASSES, POLICIES, Bed, fresh, pod
from cluster.tenants.test_upkeep import becomes, delete, says, tenants
from harness.eventually import eventually
from harness.gpu_cluster import MANIFESTS
from harness.workloads import policy

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

RESOURCE = "nvidia.com/gpu"
WANTED = {"extendedResources": {"timeSlicing": RESOURCE}}
SHARES = {"timeSlicing": {"maxClients": 4}}


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def free(bed: Bed) -> AsyncIterator[None]:
    """As with the component without-nvidia-com-gpu."""
    without = {"spec": {"extendedResourceName": None}}
    (await bed.admin.ask("PATCH", f"{CLASSES}/gpu.nvidia.com", without)).must()
    before = (await bed.admin.ask("GET", f"{POLICIES}/search")).must()["spec"]["classes"]
    (await bed.admin.ask("PATCH", f"{POLICIES}/search", {"spec": {"classes": WANTED}})).must()
    yield
    (await bed.admin.ask("PATCH", f"{POLICIES}/search", {"spec": {"classes": before}})).must()
    await bed.control_plane.kubectl("apply", "--kustomize", MANIFESTS)


async def has_it(bed: Bed, name: str) -> None:
    def check(found: Any) -> bool:
        return bool(found) and found["spec"].get("extendedResourceName") == RESOURCE

    await becomes(bed.admin, f"{CLASSES}/{name}", check)
    classes = (await bed.admin.ask("GET", CLASSES)).must()["items"]
    assert [item["metadata"]["name"] for item in classes if check(item)] == [name]


async def test_a_pod_that_asks_for_it_gets_what_the_policy_says(bed: Bed) -> None:
    await has_it(bed, "search-timeslicing")
    await bed.guards_in_force()
    name = fresh("pod")

    async def is_scheduled() -> None:
        body = pod(name, limits={RESOURCE: "1"})
        answer = await bed.tenant.ask("POST", bed.tenant.pods(), body)
        assert answer.code in {201, 409}, answer
        assert (await bed.tenant.scheduled(name))["status"] == "True"

    await eventually(is_scheduled)
    claims = (await bed.tenant.ask("GET", bed.tenant.claims())).must()["items"]
    [claim] = [item for item in claims if item["metadata"]["name"].startswith(name)]
    [result] = claim["status"]["allocation"]["devices"]["results"]
    assert (result["pool"], result["device"]) == ("n1/search", "gpu-41-timeslicing")
    stranger = await bed.other.ask("POST", bed.other.pods(), pod("stranger", limits={RESOURCE: "1"}), dry=True)
    assert (stranger.code, "SharingPolicy search" in stranger.says) == (403, True), stranger


@pytest.mark.parametrize("priority", [50, 300])
async def test_of_two_policies_the_one_that_ranks_higher_gets_it(bed: Bed, priority: int) -> None:
    await has_it(bed, "search-timeslicing")
    name = fresh("second")
    second = policy(name, offers=SHARES, tenants=tenants("search"), priority=priority, classes=WANTED)
    (await bed.admin.ask("POST", POLICIES, second)).must()
    winner, loser = (name, "search") if priority > 100 else ("search", name)
    try:
        await says(bed, loser, "Degraded", "ExtendedResourceInUse")
        await has_it(bed, f"{winner}-timeslicing")
    finally:
        await delete(bed, f"{POLICIES}/{name}")
        await bed.admin.ask("DELETE", f"{CLASSES}/{name}-timeslicing")
    await has_it(bed, "search-timeslicing")
