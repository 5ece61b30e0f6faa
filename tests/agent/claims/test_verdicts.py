"""GPUs that are for the tenants of a policy: their pools, the way from one to another, and the operator's word."""

import asyncio
import time
from typing import Any

import pytest

from agent.on_cluster import BOTH, EXCLUSIVE, TIME_SLICING, Claim, GpuNode
from harness.controlplane import ControlPlane
from harness.eventually import eventually

pytestmark = pytest.mark.cluster

DENIED = "namespace default is not one of its tenants"


async def publishes(node: GpuNode, *devices: str) -> dict[str, Any]:
    """Waits until exactly these are in the API, told as pool/device without the node; `-` before what is leaving."""

    async def check() -> None:
        await node.approve_closing()
        found = await node.devices_by_pool()
        shown = {("-" if found[name].get("taints") else "") + name.removeprefix(f"{node.name}/") for name in found}
        assert shown == set(devices)

    await eventually(check)
    return {name.removeprefix(f"{node.name}/"): device for name, device in (await node.devices_by_pool()).items()}


async def restrict(node: GpuNode, *slots: int, policy: str = "search", offers: Any = EXCLUSIVE) -> None:
    """These are for tenants only; others are everybody's."""
    gpus = [
        {
            "uuid": gpu.uuid,
            "policy": {"name": policy if slot in slots else "all", "generation": 1},
            "offers": offers,
            "restricted": slot in slots,
        }
        for slot, gpu in enumerate(node.sim.gpus())
    ]
    await node.tell({"gpus": gpus})


def pools(slices: list[Any]) -> dict[str, int]:
    """Their generations."""
    return {item["spec"]["pool"]["name"]: item["spec"]["pool"]["generation"] for item in slices}


def of_tenants(node: GpuNode, slot: int = 0, *, policy: str = "search") -> dict[str, Any]:
    return node.whole(slot, pool=f"{node.name}/{policy}")


async def error_of(node: GpuNode, claim: Claim) -> str:
    return (await node.kubelet.prepare(claim))[claim.uid].error


async def test_a_new_node_publishes_them_in_a_pool_of_their_policy_at_once(gpu_node: GpuNode) -> None:
    await restrict(gpu_node, 0)
    devices = await publishes(gpu_node, "search/gpu-0", "gpu-1")
    restricted, free = devices["search/gpu-0"]["attributes"], devices["gpu-1"]["attributes"]
    assert (restricted["type"], restricted["gpusharing.dev/restricted"]) == ({"string": "restricted"}, {"bool": True})
    assert (free["type"], free.get("gpusharing.dev/restricted")) == ({"string": "gpu"}, None)
    # A slice in each of them. With counters, they are other slices: a new generation of each pool by itself.
    before = await gpu_node.slices()
    assert len(before) == 2
    await restrict(gpu_node, 0, offers=BOTH)
    await publishes(gpu_node, "search/gpu-0", "search/gpu-0-timeslicing", "gpu-1", "gpu-1-timeslicing")
    assert len(await gpu_node.slices()) == 4
    assert pools(await gpu_node.slices()) == {pool: generation + 1 for pool, generation in pools(before).items()}


async def test_a_gpu_closes_in_one_pool_before_it_appears_in_another(gpu_node: GpuNode) -> None:
    await restrict(gpu_node)
    await publishes(gpu_node, "gpu-0", "gpu-1")
    before = await gpu_node.slices()
    holder = await gpu_node.claim(gpu_node.whole(0))
    assert not await error_of(gpu_node, holder)
    await restrict(gpu_node, 0, 1)
    devices = await publishes(gpu_node, "-gpu-0", "search/gpu-1")
    taints = devices["gpu-0"]["taints"]
    assert [(taint["key"], taint["effect"]) for taint in taints] == [("gpusharing.dev/draining", "NoSchedule")]
    assert devices["gpu-0"]["attributes"]["gpusharing.dev/policy"] == {"string": "all"}
    assert "gpusharing.dev/restricted" not in devices["gpu-0"]["attributes"]
    # It stays where it is as long as somebody holds it, over restarts, and when nobody knows where it was.
    await gpu_node.agent.kill()
    for file in (gpu_node.state / "gpus").iterdir():
        file.unlink()
    await gpu_node.agent.start()
    await publishes(gpu_node, "-gpu-0", "search/gpu-1")
    # Who was there before is not asked by whose word.
    assert not await error_of(gpu_node, holder)
    assert await gpu_node.kubelet.unprepare(holder) == {holder.uid: ""}
    await publishes(gpu_node, "search/gpu-0", "search/gpu-1")
    late = await gpu_node.claim(gpu_node.whole(0))
    assert f"its GPU belongs to pool {gpu_node.name}/search now" in await error_of(gpu_node, late)
    # And back, when the policy has gone.
    await restrict(gpu_node)
    await publishes(gpu_node, "gpu-0", "gpu-1")
    after = pools(await gpu_node.slices())
    assert after.keys() == {gpu_node.name}
    assert after[gpu_node.name] > pools(before)[gpu_node.name]


async def test_from_one_policys_tenants_to_anothers(gpu_node: GpuNode) -> None:
    await restrict(gpu_node, 0, 1)
    await publishes(gpu_node, "search/gpu-0", "search/gpu-1")
    holder = await gpu_node.claim(of_tenants(gpu_node))
    await gpu_node.judge(holder)
    assert not await error_of(gpu_node, holder)
    await restrict(gpu_node, 0, 1, policy="ads")
    devices = await publishes(gpu_node, "-search/gpu-0", "ads/gpu-1")
    assert devices["search/gpu-0"]["attributes"]["type"] == {"string": "restricted"}
    # Also when the policy goes altogether.
    await restrict(gpu_node)
    await publishes(gpu_node, "-search/gpu-0", "gpu-1")
    await gpu_node.kubelet.unprepare(holder)
    await publishes(gpu_node, "gpu-0", "gpu-1")


async def test_each_pool_comes_back_when_the_kubelet_has_deleted_all(gpu_node: GpuNode) -> None:
    await restrict(gpu_node, 0)
    await publishes(gpu_node, "search/gpu-0", "gpu-1")
    before = pools(await gpu_node.slices())
    await gpu_node.agent.kill()
    for item in await gpu_node.slices():
        await gpu_node.admin.call("DELETE", f"/apis/resource.k8s.io/v1/resourceslices/{item['metadata']['name']}")
    await gpu_node.agent.start()
    await publishes(gpu_node, "search/gpu-0", "gpu-1")
    assert pools(await gpu_node.slices()) == {pool: generation + 1 for pool, generation in before.items()}


async def test_nothing_is_prepared_before_the_operator_has_said_yes(gpu_node: GpuNode) -> None:
    await restrict(gpu_node, 0)
    await publishes(gpu_node, "search/gpu-0", "gpu-1")
    claim = await gpu_node.claim(of_tenants(gpu_node))
    began = time.monotonic()
    waiting = asyncio.create_task(error_of(gpu_node, claim))
    # Nobody else waits, nor does a word about another allocation count.
    other = await gpu_node.claim(gpu_node.whole(1))
    assert not await error_of(gpu_node, other)
    await gpu_node.judge(claim, void=True)
    assert not waiting.done()
    error = await waiting
    assert 5 <= time.monotonic() - began < 10
    assert "is for tenants of policy search only, and the operator has not said within 5 s" in error
    assert gpu_node.prepared() == {other.uid}
    # It comes while the kubelet waits.
    waiting = asyncio.create_task(error_of(gpu_node, claim))
    await gpu_node.judge(claim)
    assert not await waiting
    assert gpu_node.prepared() == {claim.uid, other.uid}


async def test_who_is_denied_fails_at_once_and_who_is_there_is_not_disturbed(gpu_node: GpuNode) -> None:
    await restrict(gpu_node, 0)
    await publishes(gpu_node, "search/gpu-0", "gpu-1")
    claim = await gpu_node.claim(of_tenants(gpu_node))
    await gpu_node.judge(claim, denied=DENIED)
    began = time.monotonic()
    assert f"denied by the operator: {DENIED}" in await error_of(gpu_node, claim)
    # Who waits for the operator waits so long.
    assert time.monotonic() - began < 5
    assert gpu_node.prepared() == set()
    await gpu_node.judge(claim)
    assert not await error_of(gpu_node, claim)
    # The operator thinks better of it, and the kubelet asks again.
    await gpu_node.judge(claim, denied=DENIED)
    assert not await error_of(gpu_node, claim)
    await gpu_node.agent.restart()
    assert not await error_of(gpu_node, claim)


async def test_what_claims_may_ask_for_is_held_on_the_node(gpu_node: GpuNode) -> None:
    shares = {"timeSlicing": {"maxClients": 4, "memory": {"default": "8Gi", "min": "1Gi", "enforcement": "None"}}}
    allow = {"gpuConfig": ["TimeSlicing"], "intervals": ["Long"], "maxShares": 1, "maxMemory": "10Gi"}
    await gpu_node.decide(shares, EXCLUSIVE, allow=allow)
    devices = await gpu_node.offers("gpu-0-timeslicing", "gpu-1")
    capacity = devices["gpu-0-timeslicing"]["capacity"]
    limits = {name: capacity[name]["requestPolicy"]["validRange"]["max"] for name in ("shares", "memory")}
    assert limits == {"shares": "1", "memory": "10Gi"}
    config = {
        "source": "FromClaim",
        "opaque": {
            "driver": "gpu.nvidia.com",
            "parameters": {
                "apiVersion": "resource.nvidia.com/v1beta1",
                "kind": "GpuConfig",
                "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Short"}},
            },
        },
    }
    short = await gpu_node.claim(gpu_node.whole(1), config=[config])
    assert "is Short, but tenants.allow.intervals is Long in policy shared" in await error_of(gpu_node, short)
    # Less is allowed later: who was there before keeps what it has.
    holder = await gpu_node.claim(gpu_node.shared(0, consumedCapacity={"shares": "1", "memory": "10Gi"}))
    assert not await error_of(gpu_node, holder)
    before = gpu_node.specs()[holder.uid]
    await gpu_node.decide(shares, EXCLUSIVE, allow={"maxMemory": "8Gi"})
    await gpu_node.offers("gpu-0-timeslicing", "gpu-1")
    assert gpu_node.specs()[holder.uid] == before
    assert not await error_of(gpu_node, holder)


async def test_only_what_drains_is_emptied(gpu_node: GpuNode) -> None:
    def told(devices: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
        return {
            name: [(taint["key"].removeprefix("gpusharing.dev/"), taint["effect"]) for taint in device["taints"]]
            for name, device in devices.items()
            if "taints" in device
        }

    await gpu_node.decide(BOTH, TIME_SLICING)
    await gpu_node.offers("gpu-0", "gpu-0-timeslicing", "gpu-1-timeslicing")
    holder = await gpu_node.claim(gpu_node.shared(0))
    assert not await error_of(gpu_node, holder)
    whole_only = {"mps": {"maxClients": 2, "memory": {"default": "8192Mi"}, "threads": {"default": 25}}}
    await gpu_node.decide(whole_only, TIME_SLICING, drain={"mode": "Evict"})

    async def drains() -> None:
        assert told(await gpu_node.devices()).get("gpu-0-timeslicing") == [("draining", "NoExecute")]

    await eventually(drains)
    taints = told(await gpu_node.devices())
    assert taints.pop("gpu-0-timeslicing")
    assert all(effect == "NoSchedule" for found in taints.values() for _, effect in found)
    since = (await gpu_node.devices())["gpu-0-timeslicing"]["taints"][0]["timeAdded"]
    # Whatever else is written of this GPU, it is tolerated as long as was said.
    await asyncio.sleep(1.1)
    await gpu_node.decide(whole_only | EXCLUSIVE, TIME_SLICING, drain={"mode": "Evict"}, allow={"maxThreads": 50})

    async def written() -> None:
        devices = await gpu_node.devices()
        assert devices["gpu-0-timeslicing"]["taints"][0]["timeAdded"] == since

    await eventually(written)
    await gpu_node.kubelet.unprepare(holder)

    async def ended() -> None:
        taints = told(await gpu_node.devices())
        assert all(effect == "NoSchedule" for found in taints.values() for _, effect in found)

    await eventually(ended)


async def test_a_claim_that_has_a_device_of_the_same_name_elsewhere_holds_nothing_here(installed: ControlPlane) -> None:
    async with GpuNode(installed, gpus="H100-80GB:1") as node:
        await node.agent.kill()
        node.agent = node.process("hasty", taken_wait="1.5")
        async with node.agent.killed_at_end():
            await node.decide(BOTH)
            await node.offers("gpu-0", "gpu-0-timeslicing")
            claim = await node.claim(node.whole(0))
            assert not await error_of(node, claim)

            async def told() -> None:
                assert await node.status_devices(claim)

            # The agent's last write of it for now.
            await eventually(told)
            # As after a force delete: the claim is the same, and the kubelet has not heard of it.
            await node.deallocate(claim)
            await node.allocate(claim, node.whole(0, pool="elsewhere"))
            # The operator, which would approve the withdrawal at once, has not heard of it either.
            await node.offers("gpu-0", closing="gpu-0-timeslicing", approved=False)
            await node.offers("gpu-0", "gpu-0-timeslicing", approved=False)
