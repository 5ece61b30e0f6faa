"""Changes of idle GPUs with all waits at their defaults: they are in force in seconds,
as the guard keeps off what is still on its way. `pytest -s` prints the figures of docs/performance.md."""

import time
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from agent.on_cluster import RESOURCE, GpuNode
from cluster.narrowing.bed import EXCLUSIVE, SHARED, Bed, Wish
from gpusharing.api.sharing.node_spec import IDLE_WAIT
from harness.eventually import eventually
from harness.workloads import policy

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

TENANTS: Final = {"team": "search"}
TENANTS_WHOLE: Final = Wish("shared-exclusive")
RUNS: Final = 5
GOAL: Final = 10.0
"""Seconds, from the policy to a tenant's allocation."""
MOST: Final = 30.0
"""Where the machine is busy with other tests."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def a_bed(toolchain: object) -> AsyncIterator[Bed]:
    async with Bed(taken_wait=60, idle_wait=IDLE_WAIT) as bed:
        await bed.admin.merge("/api/v1/namespaces/default", {"metadata": {"labels": TENANTS}})
        yield bed


@pytest_asyncio.fixture(loop_scope="module")
async def bed(a_bed: Bed) -> AsyncIterator[Bed]:
    await a_bed.offer(**EXCLUSIVE, **SHARED)
    await a_bed.restrict(to=None)
    yield a_bed
    a_bed.allocations.wrong.clear()
    for kind in ("/api/v1/namespaces/default/pods", f"{RESOURCE}/namespaces/default/resourceclaims"):
        await a_bed.admin.call("DELETE", kind, {"gracePeriodSeconds": 0})


async def is_open_to_all(node: GpuNode) -> None:
    async def check() -> None:
        devices = await node.devices_by_pool()
        assert {name.rpartition("/")[0] for name in devices} == {node.name}
        assert all("taints" not in device for device in devices.values())

    await eventually(check)


async def in_force_after(bed: Bed, node: GpuNode) -> float:
    """Of a policy that names tenants from its beginning: none of its classes leads to the pool of before."""
    policies = "/apis/gpusharing.dev/v1alpha1/sharingpolicies"
    tenants = {"namespaces": {"matchLabels": dict(TENANTS)}}
    began = time.monotonic()
    await bed.admin.call("POST", policies, policy("reserved", offers=EXCLUSIVE, tenants=tenants, priority=100))
    workload = await bed.start(Wish("reserved-exclusive"))
    await bed.bound[workload.name]
    seconds = time.monotonic() - began
    claim: Any = await bed.admin.call("GET", workload.claim.path)
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert result["pool"] == f"{node.name}/reserved"
    await bed.ends(workload)
    await bed.admin.call("DELETE", f"{policies}/reserved")

    async def collected() -> None:
        assert await bed.admin.call("GET", f"{RESOURCE}/deviceclasses/reserved-exclusive", absent=True) is None

    await eventually(collected)
    return seconds


async def test_a_policy_with_tenants_is_in_force_on_idle_gpus_in_seconds(bed: Bed) -> None:
    async with bed.node(gpus="H100-80GB:2") as node:
        await is_open_to_all(node)
        assert await in_force_after(bed, node) < MOST
    assert bed.allocations.wrong == []


async def test_a_mode_that_is_not_offered_any_more_leaves_an_idle_gpu_in_seconds(bed: Bed) -> None:
    async with bed.node() as node:
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing")
        began = time.monotonic()
        await bed.offer(**EXCLUSIVE)
        await bed.shows(node, "gpu-0")
        assert time.monotonic() - began < MOST
    assert bed.allocations.wrong == []


async def test_a_claim_in_the_way_is_waited_for_and_no_longer(bed: Bed) -> None:
    async with bed.node() as node:
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing")
        holder = await bed.start(Wish("gpu.nvidia.com"))
        await bed.runs(holder, "gpu-0", on=node)
        await bed.restrict(to=TENANTS)
        tenants = await bed.start(Wish("shared-timeslicing"))
        await bed.waits(tenants, seconds=GOAL)
        await bed.ends(holder, on=node)
        began = time.monotonic()
        await bed.gets(tenants, "gpu-0-timeslicing")
        assert time.monotonic() - began < MOST
    assert bed.allocations.wrong == []


async def test_without_the_guard_it_waits_and_the_policy_says_until_when(bed: Bed) -> None:
    binding = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/gpusharing-closing"
    before = await bed.admin.call("GET", binding)
    async with bed.node() as node:
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing")
        await bed.admin.call("DELETE", binding)
        await bed.restrict(to=TENANTS)

        async def says() -> None:
            policy = await bed.admin.call("GET", "/apis/gpusharing.dev/v1alpha1/sharingpolicies/shared")
            lagging = policy["status"]["lagging"]
            assert [one["reason"] for one in lagging] == ["Withdrawing"]
            message = lagging[0]["message"]
            assert "gpusharing-closing or its binding is missing or changed; see docs/tenants.md" in message
            assert "until 20" in message

        await eventually(says)
        tenants = await bed.start(TENANTS_WHOLE)
        await bed.waits(tenants, seconds=GOAL)
        made = {"apiVersion": before["apiVersion"], "kind": before["kind"], "spec": before["spec"]}
        await bed.admin.call("POST", binding.rpartition("/")[0], made | {"metadata": {"name": "gpusharing-closing"}})
        await bed.gets(tenants, "gpu-0")
    assert bed.allocations.wrong == []


async def test_a_layout_that_needs_a_reset_is_in_force_on_idle_gpus_in_seconds(bed: Bed) -> None:
    """On Ampere, where the MIG mode is switched by a reset."""
    async with bed.node(gpus="A100-40GB:1") as node:
        await bed.shows(node, "gpu-0", "gpu-0-timeslicing")
        began = time.monotonic()
        await bed.offer(mig={"layout": {"1g.5gb": 1}})
        workload = await bed.start(Wish("mig.nvidia.com", "1g.5gb"))
        await bed.bound[workload.name]
        print(f"layout with a reset to allocated: {time.monotonic() - began:.1f} s")
        assert time.monotonic() - began < MOST
        await bed.prepare(workload, on=node)
    assert bed.allocations.wrong == []


@pytest.mark.slow
async def test_the_slowest_of_some(bed: Bed) -> None:
    found: list[float] = []
    for _ in range(RUNS):
        async with bed.node(gpus="H100-80GB:2") as node:
            await is_open_to_all(node)
            found.append(await in_force_after(bed, node))
            print(f"{found[-1]:.1f} s", flush=True)
    found.sort()
    print(f"policy with tenants to allocated: median {found[RUNS // 2]:.1f} s, slowest of {RUNS} {found[-1]:.1f} s")
    assert bed.allocations.wrong == []
    assert found[-1] < MOST
