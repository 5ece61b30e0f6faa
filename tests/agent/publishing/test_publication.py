"""What an agent offers the scheduler, and how it keeps it so."""

import asyncio
import json
from typing import Any

import pytest

from agent.on_cluster import BOTH, DRIVER, EXCLUSIVE, RESOURCE, TIME_SLICING, GpuNode
from gpusharing.core.publishing.slice_updates import slice_name
from gpusharing.sim import ComputeMode, Timeslice
from harness.controlplane import ControlPlane
from harness.eventually import eventually

pytestmark = pytest.mark.cluster

LONG = {"timeSlicing": {"maxClients": 4, "interval": "Long"}}


async def has_looked_around(node: GpuNode) -> None:
    """Waits until the agent has gone through all that it does: a new word of the operator makes it."""
    before = (await node.sharing())["spec"]
    entry = {"uid": "none", "claim": "none/none", "allocationHash": "0", "verdict": "Allowed"}
    claims = [] if before.get("claims") else [entry]
    generation = (await node.admin.merge(node.sharing_path, {"spec": {"claims": claims}}))["metadata"]["generation"]

    async def observed() -> None:
        assert (await node.sharing())["status"]["observedGeneration"] == generation

    await eventually(observed)


def versions(slices: list[Any]) -> dict[str, tuple[str, str]]:
    return {item["metadata"]["name"]: (item["metadata"]["uid"], item["metadata"]["resourceVersion"]) for item in slices}


@pytest.mark.parametrize("gpus", ["H100-80GB:2", "A100-40GB:1,A30:1,L4:1", "L4:9"])
async def test_an_agent_that_was_killed_writes_nothing_when_it_starts(installed: ControlPlane, gpus: str) -> None:
    async with GpuNode(installed, gpus=gpus) as node:
        count = len(node.sim.gpus())
        await node.decide(*[BOTH] * count)
        names = [name for slot in range(count) for name in (f"gpu-{slot}", f"gpu-{slot}-timeslicing")]
        await node.offers(*names)
        before, writes = await node.slices(), len(node.log("devices published"))
        # One for all GPUs, and one for each eight counter sets.
        assert len(before) == 1 + (count + 7) // 8
        for item in before:
            (owner,) = item["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"], owner["controller"]) == ("Node", node.name, True)
        await node.agent.kill()
        await node.agent.start()
        await has_looked_around(node)
        assert versions(await node.slices()) == versions(before)
        assert await node.slices() == before
        # Nor a write of the same, which the API server takes without a word.
        assert len(node.log("devices published")) == writes


async def test_an_orderly_restart_only_taints_and_untaints(gpu_node: GpuNode) -> None:
    """In place: the pool keeps its generation, so that the scheduler always sees all of it."""
    node = gpu_node
    await node.decide(BOTH, EXCLUSIVE)
    await node.offers("gpu-0", "gpu-0-timeslicing", "gpu-1")
    before = await node.slices()
    await node.agent.stop()
    stopped = {"key": "gpusharing.dev/agent-stopped", "effect": "NoSchedule"}
    for device in (await node.devices()).values():
        # The API server adds when.
        assert [taint | stopped for taint in device["taints"]] == device["taints"]
    await node.agent.start()

    async def is_as_before() -> None:
        assert [item["spec"] for item in await node.slices()] == [item["spec"] for item in before]

    await eventually(is_as_before)


async def test_nothing_is_scheduled_before_the_operator_has_spoken(gpu_node: GpuNode) -> None:
    async def tainted() -> None:
        devices = await gpu_node.devices()
        assert set(devices) == {"gpu-0", "gpu-1"}
        for device in devices.values():
            (taint,) = device["taints"]
            assert (taint["key"], taint["effect"]) == ("gpusharing.dev/unconfigured", "NoSchedule")

    async def made() -> None:
        assert await gpu_node.sharing() is not None

    await eventually(made)
    await eventually(tainted)
    sharing = await gpu_node.sharing()
    assert sharing["spec"] == {}
    assert [owner["name"] for owner in sharing["metadata"]["ownerReferences"]] == [gpu_node.name]
    # A word on one GPU says nothing of the other.
    await gpu_node.decide(EXCLUSIVE)

    async def one_is_free() -> None:
        devices = await gpu_node.devices()
        assert [bool(devices[name].get("taints")) for name in ("gpu-0", "gpu-1")] == [False, True]

    await eventually(one_is_free)
    await gpu_node.decide(EXCLUSIVE, TIME_SLICING)
    await gpu_node.offers("gpu-0", "gpu-1-timeslicing")


async def test_last_word_holds_although_nobody_remembers_it(gpu_node: GpuNode) -> None:
    """Neither the deletion of the NodeSharing nor a restart meanwhile opens what a policy restricts."""
    await gpu_node.decide(TIME_SLICING, BOTH)
    names = ("gpu-0-timeslicing", "gpu-1", "gpu-1-timeslicing")
    await gpu_node.offers(*names)
    before = versions(await gpu_node.slices())
    uid = (await gpu_node.sharing())["metadata"]["uid"]
    await gpu_node.agent.kill()
    await gpu_node.admin.call("DELETE", gpu_node.sharing_path)
    await gpu_node.agent.start()

    async def made_again() -> None:
        sharing = await gpu_node.sharing()
        assert sharing is not None
        assert sharing["metadata"]["uid"] != uid
        assert [gpu["policy"]["name"] for gpu in sharing.get("status", {}).get("gpus", ())] == ["shared", "shared"]

    await eventually(made_again)
    await gpu_node.offers(*names)
    # Also while the agent runs.
    await gpu_node.admin.call("DELETE", gpu_node.sharing_path)
    await eventually(made_again)
    assert versions(await gpu_node.slices()) == before


async def test_last_word_on_a_gpu_in_use_is_not_lost_either(gpu_node: GpuNode) -> None:
    await gpu_node.decide(TIME_SLICING, EXCLUSIVE)
    await gpu_node.offers("gpu-0-timeslicing", "gpu-1")
    claim = await gpu_node.claim(gpu_node.shared(0))
    await gpu_node.kubelet.prepare(claim)
    await gpu_node.decide(EXCLUSIVE, EXCLUSIVE)
    await gpu_node.offers("gpu-1", draining="gpu-0-timeslicing")
    await gpu_node.agent.kill()
    await gpu_node.admin.call("DELETE", gpu_node.sharing_path)
    await gpu_node.agent.start()
    await gpu_node.kubelet.unprepare(claim)
    # What was offered before stays until the operator has spoken.
    await gpu_node.offers("gpu-0", "gpu-1", closing="gpu-0-timeslicing")


async def test_two_ways_exclude_each_other_by_counters_and_one_way_needs_none(gpu_node: GpuNode) -> None:
    for offers, first in ((BOTH, True), (TIME_SLICING, False), (BOTH, True), (EXCLUSIVE, False)):
        await gpu_node.decide(offers, EXCLUSIVE)
        names = {"gpu-0"} if "exclusive" in offers else set()
        names |= {"gpu-0-timeslicing"} if "timeSlicing" in offers else set()
        devices = await gpu_node.offers(*names, "gpu-1")
        assert "consumesCounters" not in devices["gpu-1"]
        counters = [devices[name].get("consumesCounters") for name in names]
        whole = [{"counterSet": "gpu-0-counter-set", "counters": {"memory": {"value": "81559Mi"}}}]
        assert counters == ([whole] * 2 if first else [None])
        # Nor a slice for them.
        assert ["sharedCounters" in item["spec"] for item in await gpu_node.slices()] == (
            [True, False] if first else [False]
        )


async def test_gpu_in_use_drains_and_follows_when_its_claim_leaves(gpu_node: GpuNode) -> None:
    await gpu_node.decide(TIME_SLICING, TIME_SLICING)
    await gpu_node.offers("gpu-0-timeslicing", "gpu-1-timeslicing")
    claim = await gpu_node.claim(gpu_node.shared(0))
    assert not (await gpu_node.kubelet.prepare(claim))[claim.uid].error
    await gpu_node.decide(EXCLUSIVE, EXCLUSIVE, policy="other")
    await gpu_node.offers("gpu-1", draining="gpu-0-timeslicing")
    # It still does after a restart.
    await gpu_node.agent.kill()
    await gpu_node.agent.start()
    await has_looked_around(gpu_node)
    devices = await gpu_node.offers("gpu-1", draining="gpu-0-timeslicing")
    attributes = devices["gpu-0-timeslicing"]["attributes"]
    assert attributes["gpusharing.dev/policy"] == {"string": "shared"}
    assert attributes["gpusharing.dev/closing"] == {"bool": True}
    assert await gpu_node.kubelet.unprepare(claim) == {claim.uid: ""}
    devices = await gpu_node.offers("gpu-0", "gpu-1")
    assert devices["gpu-0"]["attributes"]["gpusharing.dev/policy"] == {"string": "other"}


async def follows_to(node: GpuNode, *claims: Any, interval: str, timeslice: Timeslice) -> None:
    """Every place that says what the claims have."""

    async def check() -> None:
        assert node.time_slices()[0] is timeslice
        status = (await node.sharing())["status"]
        assert {claim["uid"] for claim in status["claims"]} == {claim.uid for claim in claims}
        told = [claim["settings"][0]["interval"] for claim in status["claims"]]
        assert set(told) == {interval}
        assert status["gpus"][0]["timeSlice"] == interval
        for claim in claims:
            edits = node.specs()[claim.uid]["devices"][0]["containerEdits"]
            assert f"GPUSHARING_GPU_0_INTERVAL={interval}" in edits["env"]
            (entry,) = await node.status_devices(claim)
            assert entry["data"]["interval"] == interval

    await eventually(check)


async def test_interval_is_edited_while_the_gpu_is_in_use(gpu_node: GpuNode) -> None:
    await gpu_node.decide(TIME_SLICING)
    claims = [await gpu_node.claim(gpu_node.shared(0)) for _ in range(2)]
    assert not any(answer.error for answer in (await gpu_node.kubelet.prepare(*claims)).values())
    await follows_to(gpu_node, *claims, interval="Medium", timeslice=Timeslice.MEDIUM)
    await gpu_node.decide(LONG)
    await follows_to(gpu_node, *claims, interval="Long", timeslice=Timeslice.LONG)
    third = await gpu_node.claim(gpu_node.shared(0))
    assert not (await gpu_node.kubelet.prepare(third))[third.uid].error
    await follows_to(gpu_node, *claims, third, interval="Long", timeslice=Timeslice.LONG)
    await gpu_node.kubelet.unprepare(*claims, third)
    assert gpu_node.time_slices() == [Timeslice.DEFAULT] * 2


async def test_agent_dies_between_a_new_interval_and_its_claims(gpu_node: GpuNode) -> None:
    """What is published is on disk before the claims are: they follow it also after a restart."""
    await gpu_node.decide(TIME_SLICING)
    claim = await gpu_node.claim(gpu_node.shared(0))
    await gpu_node.kubelet.prepare(claim)
    await follows_to(gpu_node, claim, interval="Medium", timeslice=Timeslice.MEDIUM)
    file = gpu_node.state / "claims" / f"{claim.uid}.json"
    before = file.read_bytes()
    await gpu_node.decide(LONG)
    await follows_to(gpu_node, claim, interval="Long", timeslice=Timeslice.LONG)
    await gpu_node.agent.kill()
    file.write_bytes(before)
    await gpu_node.agent.start()
    await follows_to(gpu_node, claim, interval="Long", timeslice=Timeslice.LONG)


async def generation_of(node: GpuNode) -> int:
    generation: int = (await node.slices())[0]["spec"]["pool"]["generation"]
    return generation


async def complete(node: GpuNode, *names: str, after: int) -> int:
    """Waits for a whole pool of one generation, which it returns, later than that one."""

    async def check() -> None:
        assert set(await node.devices()) == set(names)
        assert await generation_of(node) > after

    await eventually(check)
    return await generation_of(node)


async def test_slices_come_back_when_the_kubelet_has_deleted_them(gpu_node: GpuNode) -> None:
    await gpu_node.decide(BOTH, EXCLUSIVE)
    names = ("gpu-0", "gpu-0-timeslicing", "gpu-1")
    await gpu_node.offers(*names)
    before = await generation_of(gpu_node)
    selector = f"fieldSelector=spec.nodeName%3D{gpu_node.name}"
    await gpu_node.admin.call("DELETE", f"{RESOURCE}/resourceslices?{selector}")
    # The agent hears of one deletion after the other, so it may have begun before it has heard of the last.
    generation = await complete(gpu_node, *names, after=before)
    # Also while the agent was away: what is left in the API says nothing of generations then.
    await gpu_node.agent.kill()
    await gpu_node.admin.call("DELETE", f"{RESOURCE}/resourceslices?{selector}")
    await gpu_node.agent.start()
    assert await complete(gpu_node, *names, after=generation) == generation + 1


async def test_half_a_pool_is_written_anew(gpu_node: GpuNode) -> None:
    """As a crash leaves it: one slice is missing, another one is of a later generation."""
    await gpu_node.decide(BOTH, EXCLUSIVE)
    names = ("gpu-0", "gpu-0-timeslicing", "gpu-1")
    await gpu_node.offers(*names)
    await gpu_node.agent.kill()
    first, second = await gpu_node.slices()
    await gpu_node.admin.call("DELETE", f"{RESOURCE}/resourceslices/{first['metadata']['name']}")
    second["spec"]["pool"]["generation"] = 7
    await gpu_node.admin.call("PUT", f"{RESOURCE}/resourceslices/{second['metadata']['name']}", second)
    await gpu_node.agent.start()
    assert await complete(gpu_node, *names, after=7) == 8


async def test_slices_that_others_changed_or_added_are_set_right(gpu_node: GpuNode) -> None:
    await gpu_node.decide(BOTH, EXCLUSIVE)
    names = ("gpu-0", "gpu-0-timeslicing", "gpu-1")
    await gpu_node.offers(*names)
    before, generation = await gpu_node.slices(), await generation_of(gpu_node)
    edited = json.loads(json.dumps(before[1]))
    edited["spec"]["devices"][0]["name"] = "gpu-7"
    await gpu_node.admin.call("PUT", f"{RESOURCE}/resourceslices/{edited['metadata']['name']}", edited)
    # Only this one is written, in the same generation.
    assert await complete(gpu_node, *names, after=0) == generation
    after = await gpu_node.slices()
    assert versions(after[:1]) == versions(before[:1])

    extra = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        # One of another name is another driver's.
        "metadata": {"name": slice_name(2, pool=gpu_node.name, driver=DRIVER)},
        "spec": before[1]["spec"],
    }
    await gpu_node.admin.call("POST", f"{RESOURCE}/resourceslices", extra)
    assert await complete(gpu_node, *names, after=generation) == generation + 1
    assert len(await gpu_node.slices()) == 2
    assert all(item["spec"]["driver"] == DRIVER for item in await gpu_node.slices())


async def test_node_that_was_registered_anew_owns_the_slices(gpu_node: GpuNode) -> None:
    """What names an owner that is gone is collected as garbage, again and again."""
    await gpu_node.decide(EXCLUSIVE, EXCLUSIVE)
    await gpu_node.offers("gpu-0", "gpu-1")
    await gpu_node.admin.call("DELETE", f"/api/v1/nodes/{gpu_node.name}")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": gpu_node.name}}
    uid = (await gpu_node.admin.call("POST", "/api/v1/nodes", node))["metadata"]["uid"]

    async def owned() -> None:
        slices = [*await gpu_node.slices(), await gpu_node.sharing()]
        assert len(slices) == 2
        assert all(slices)
        assert {item["metadata"]["ownerReferences"][0]["uid"] for item in slices} == {uid}

    await eventually(owned)


async def test_node_is_reported_although_nvidia_smi_fails(installed: ControlPlane) -> None:
    """Else the operator would never hear of the GPUs, and they would stay unconfigured; whole ones need no tool."""
    async with GpuNode(installed, start=False) as node:
        first = node.sim.gpus()[0]
        real = node.sim.nvidia_smi.with_name("real")
        node.sim.nvidia_smi.rename(real)
        node.sim.nvidia_smi.write_text(
            f'#!/bin/sh\ncase "$*" in *{first.uuid}*) echo "GPU is lost"; exit 15;; esac\nexec {real} "$@"\n'
        )
        node.sim.nvidia_smi.chmod(0o755)
        await node.agent.start()
        await node.decide(BOTH, BOTH)
        await node.offers("gpu-0", "gpu-0-timeslicing", "gpu-1", "gpu-1-timeslicing")
        status = (await node.sharing())["status"]
        assert [gpu.get("timeSlice") for gpu in status["gpus"]] == [None, "Default"]
        whole, shared = await node.claim(node.whole(0)), await node.claim(node.shared(1))
        refused = await node.claim(node.shared(0))
        answers = await node.kubelet.prepare(whole, shared)
        assert not any(answer.error for answer in answers.values())
        await node.kubelet.unprepare(whole)
        assert "GPU is lost" in (await node.kubelet.prepare(refused))[refused.uid].error
        assert node.prepared() == set(node.specs()) == {shared.uid}


async def test_gpu_that_somebody_else_set_is_reported(gpu_node: GpuNode) -> None:
    """And a report is written when something has changed, not otherwise."""
    node, (first, _) = gpu_node, gpu_node.sim.gpus()
    await gpu_node.decide(EXCLUSIVE, EXCLUSIVE)
    await gpu_node.agent.stop()
    node.sim.set_timeslice(first.uuid, Timeslice.SHORT)
    node.sim.set_compute_mode(first.uuid, ComputeMode.PROHIBITED)
    await gpu_node.agent.start()

    async def reported() -> None:
        gpu = (await gpu_node.sharing())["status"]["gpus"][0]
        assert (gpu["timeSlice"], gpu["computeMode"]) == ("Short", "Prohibited")

    await eventually(reported)
    version = (await gpu_node.sharing())["metadata"]["resourceVersion"]
    await asyncio.sleep(1)
    assert (await gpu_node.sharing())["metadata"]["resourceVersion"] == version


FOREIGN = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "gpu-node-1-gpu.nvidia.com-x7k2p"},
}


async def others_are_named(node: GpuNode, *parts: str) -> None:
    async def named() -> None:
        status = ((await node.sharing()) or {}).get("status") or {}
        ready = next((one for one in status.get("conditions", ()) if one["type"] == "Ready"), None)
        assert ready is not None
        assert (ready["status"], ready["reason"]) == ("False", "OtherDriverFound")
        for part in (*parts, "remove it from this node, or start the agent with --beside-others"):
            assert part in ready["message"]
        events = (await node.admin.call("GET", "/apis/events.k8s.io/v1/events"))["items"]
        assert any(event["reason"] == "OtherDriverFound" and event["note"] == ready["message"] for event in events)

    await eventually(named)


async def test_nothing_is_published_beside_another_driver_of_this_name(installed: ControlPlane) -> None:
    """And nothing of its own is touched."""
    async with GpuNode(installed, start=False) as node:
        pool = {"name": node.name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node.name, "devices": [{"name": "gpu-0"}], "pool": pool}
        theirs = await node.admin.call("POST", RESOURCE + "/resourceslices", {**FOREIGN, "spec": spec})
        await node.agent.start()
        name = theirs["metadata"]["name"]
        await others_are_named(node, f"another DRA driver of the name {DRIVER} has the ResourceSlice {name}")
        assert versions(await node.slices()) == versions([theirs])
        # It has been decided.
        await node.admin.call("DELETE", f"{RESOURCE}/resourceslices/{name}")
        await node.decide(EXCLUSIVE, EXCLUSIVE)
        await node.offers("gpu-0", "gpu-1")


async def test_nothing_is_published_beside_a_device_plugin_and_mig_manager(installed: ControlPlane) -> None:
    async with GpuNode(installed, start=False) as node:
        path = f"/api/v1/nodes/{node.name}"
        await node.admin.merge(path, {"metadata": {"labels": {"nvidia.com/mig.config": "all-1g.10gb"}}})
        served = {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "0", "cpu": "8"}
        await node.admin.merge(f"{path}/status", {"status": {"allocatable": served, "capacity": served}})
        await node.agent.start()
        await others_are_named(node, "a device plugin offers 4 nvidia.com/gpu", "label nvidia.com/mig.config=all-1g.10")
        assert await node.slices() == []
