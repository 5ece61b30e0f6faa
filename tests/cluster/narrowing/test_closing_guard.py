"""The closing guard on a real API server: what it refuses, and how one sees that it holds."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import aiohttp
import pytest
import pytest_asyncio

from agent.on_cluster import RESOURCE, Admin
from gpusharing.api import names
from gpusharing.core.cluster.guards import literals
from gpusharing.core.cluster.guards.closing import CLOSED, CLOSING
from gpusharing.core.cluster.guards.form import REVISION, probe, seen_revision
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.gpu_cluster import CLOSING_GUARD

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

GUARD: Final = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{CLOSING}"
CLAIMS: Final = f"{RESOURCE}/namespaces/default/resourceclaims"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LONG_AGO: Final = "2020-01-01T00:00:00Z"
PART: Final = "gpu-0-mig-1g10gb-19-6"


class Guard:
    def __init__(self, admin: Admin) -> None:
        self.admin = admin
        self.revision = 0

    async def closes(self, **pools: list[list[str]]) -> None:
        """Returns when it is in force."""
        self.revision += 1
        variables = (await self.admin.call("GET", GUARD))["spec"]["variables"]
        texts = {one["name"]: one["expression"] for one in variables} | {
            CLOSED: literals.render({pool.replace("__", "/"): literals.of(records) for pool, records in pools.items()}),
            REVISION: f"'{self.revision}'",
        }
        patch = {"spec": {"variables": [{"name": name, "expression": text} for name, text in texts.items()]}}
        await self.admin.merge(GUARD, patch)

        async def holds() -> None:
            assert await self.seen() == self.revision

        await eventually(holds)

    async def seen(self) -> int | None:
        said = await self.refusal("POST", f"{LEASES}?dryRun=All", {"metadata": {"name": probe(CLOSING)}})
        return seen_revision(said.partition('"}]')[0])

    async def refusal(self, method: str, path: str, body: Any) -> str:
        """Empty if it was not refused."""
        try:
            await self.admin.call(method, path, body)
        except (AssertionError, aiohttp.ClientError) as error:
            return str(error)
        return ""

    async def allocates(self, *devices: str, pool: str = "n1", admin: bool = False) -> str:
        """The refusal of a new claim's allocation."""
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
        body = {"metadata": {"generateName": "claim-"}, "spec": {"devices": {"requests": [request]}}}
        claim = await self.admin.call("POST", CLAIMS, body)
        access = {"adminAccess": True} if admin else {}
        results = [
            {"request": "gpu", "driver": "gpu.nvidia.com", "pool": pool, "device": device} | access
            for device in devices
        ]
        status = {"allocation": {"devices": {"results": results}}}
        path = f"{CLAIMS}/{claim['metadata']['name']}/status?dryRun=All"
        return await self.refusal("PUT", path, claim | {"status": status})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guard(toolchain: object) -> AsyncIterator[Guard]:
    async with ControlPlane() as control_plane, Admin(control_plane) as admin:
        await control_plane.kubectl("apply", "--filename", CLOSING_GUARD)
        yield Guard(admin)


async def test_it_says_which_literals_it_goes_by_and_lets_all_other_leases_be(guard: Guard) -> None:
    await guard.closes()
    assert not await guard.refusal("POST", f"{LEASES}?dryRun=All", {"metadata": {"name": "somebodys"}})
    before = guard.revision
    await guard.closes(n1=[[LONG_AGO, "", "0"]])
    assert guard.revision == before + 1


@pytest.mark.parametrize(
    "item", ["0", "gpu-0", "gpu-0-mig", PART, "gpu-0-timeslicing", "0r1", "gpu-0r1", "gpu-0r1-mig", "gpu-0r1-mps"]
)
async def test_it_refuses_what_an_item_covers_and_nothing_else(guard: Guard, item: str) -> None:
    await guard.closes(n1=[[LONG_AGO, "", "7"], [LONG_AGO, LONG_AGO, item]])
    canonical = ("gpu-0", "gpu-0-timeslicing", "gpu-0-mps", PART, "gpu-0-mig-1g10gb-19-5", "gpu-10")
    devices = [names.at_revision(device, revision) for device in canonical for revision in (0, 1)]
    refused = [device for device in devices if names.is_covered(device, [item])]
    assert refused
    for device in devices:
        refusal = await guard.allocates(device)
        assert (f"device n1/{device} is being withdrawn" in refusal) == (device in refused), (device, refusal)
        assert device in refused or not refusal
    # Beside others, too.
    assert await guard.allocates("gpu-10", refused[0])


async def test_other_pools_and_whoever_only_looks_are_let_in(guard: Guard) -> None:
    await guard.closes(n1__search=[[LONG_AGO, "", "0"]])
    assert not await guard.allocates("gpu-0")
    refusal = await guard.allocates("gpu-0", pool="n1/search")
    assert "n1/search" in refusal


async def test_the_api_server_finds_nothing_wrong_with_its_types(guard: Guard) -> None:
    async def checked() -> None:
        status = (await guard.admin.call("GET", GUARD))["status"]
        assert status["observedGeneration"] > 0
        assert status["typeChecking"] == {}, json.dumps(status)

    await eventually(checked)
