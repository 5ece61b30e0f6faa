"""What an agent does when a GPU reports an error, is lost, or is well again. Whoever uses it is left alone."""

import asyncio
import re
from typing import Any

import pytest
from grpclib.client import Channel, UnaryStreamMethod

from agent.on_cluster import BOTH, EXCLUSIVE, TIME_SLICING, Claim, GpuNode
from agent.publishing.test_publication import has_looked_around, versions
from gpusharing.agent.kubelet.pb import health_pb2 as pb
from gpusharing.sim import faults
from harness.commands import run
from harness.eventually import eventually

pytestmark = pytest.mark.cluster

MIG = {"mig": {"profiles": ["3g.40gb"]}}
UNHEALTHY = "gpusharing.dev/unhealthy"


async def taints(node: GpuNode) -> dict[str, str]:
    """By device; only of health, and none may evict."""
    found = {}
    for name, device in (await node.devices()).items():
        for taint in device.get("taints", ()):
            assert taint["effect"] == "NoSchedule"
            if taint["key"] == UNHEALTHY:
                found[name] = taint["value"]
    return found


def condition(conditions: list[Any], type_: str) -> Any:
    return next(one for one in conditions if one["type"] == type_)


async def told_of(node: GpuNode, claim: Claim) -> Any:
    devices = await node.status_devices(claim)
    assert len(devices) == 1
    return condition(devices[0]["conditions"], "Healthy")


async def events(node: GpuNode) -> list[tuple[str, str]]:
    items = (await node.admin.call("GET", "/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
    about = [item for item in items if item["regarding"]["name"] == node.name]
    return [(item["type"], item["reason"]) for item in sorted(about, key=lambda item: str(item["eventTime"]))]


async def gpu(node: GpuNode, index: int = 0) -> Any:
    return (await node.sharing())["status"]["gpus"][index]


async def is_withheld(node: GpuNode, reason: str, *devices: str) -> None:
    async def check() -> None:
        assert await taints(node) == dict.fromkeys(devices, reason)
        told = condition((await gpu(node))["conditions"], "Healthy")
        assert (told["status"], told["reason"]) == ("False", reason)
        ready = condition((await node.sharing())["status"]["conditions"], "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "GpuUnhealthy")
        assert (await gpu(node))["uuid"] in ready["message"]

    await eventually(check)


async def is_well(node: GpuNode) -> None:
    async def check() -> None:
        assert await taints(node) == {}
        told = condition((await gpu(node))["conditions"], "Healthy")
        assert (told["status"], told["reason"]) == ("True", "Healthy")
        assert condition((await node.sharing())["status"]["conditions"], "Ready")["status"] == "True"

    await eventually(check)


async def test_gpu_with_a_fatal_error_is_for_nobody_new_until_it_was_reset(gpu_node: GpuNode) -> None:
    node, (first, _) = gpu_node, gpu_node.sim.gpus()
    await node.decide(BOTH, EXCLUSIVE)
    await node.offers("gpu-0", "gpu-0-timeslicing", "gpu-1")
    claim = await node.claim(node.shared(0))
    assert not (await node.kubelet.prepare(claim))[claim.uid].error

    async def claim_is(status: str, reason: str) -> None:
        async def check() -> None:
            told = await told_of(node, claim)
            assert (told["status"], told["reason"]) == (status, reason)

        await eventually(check)

    await claim_is("True", "Healthy")
    await is_well(node)

    node.sim.inject(faults.Xid(first.uuid, 48))
    await is_withheld(node, "FatalXid", "gpu-0", "gpu-0-timeslicing")
    await claim_is("False", "FatalXid")
    told = await told_of(node, claim)
    assert re.search(r"XID 48 at \S+Z: memory could not be corrected; reset it", told["message"])
    assert condition((await node.status_devices(claim))[0]["conditions"], "Ready")["status"] == "True"
    assert await events(node) == [("Warning", "FatalXid")]

    # An agent that starts anew knows of it, and says nothing twice. Nor does one that only goes on.
    before, sharing = versions(await node.slices()), (await node.sharing())["status"]
    await node.agent.kill()
    await node.agent.start()
    await has_looked_around(node)
    await is_withheld(node, "FatalXid", "gpu-0", "gpu-0-timeslicing")
    assert versions(await node.slices()) == before
    assert (await node.sharing())["status"]["gpus"] == sharing["gpus"]
    assert await told_of(node, claim) == told
    assert node.prepared() == {claim.uid}

    # Nobody can reset a GPU that an agent has open.
    await node.agent.stop()
    node.sim.reset_gpu(first.uuid)
    await node.agent.start()
    await is_well(node)
    await claim_is("True", "Healthy")

    async def told_once() -> None:
        assert await events(node) == [("Warning", "FatalXid"), ("Normal", "GpuHealthy")]

    await eventually(told_once)
    await node.kubelet.unprepare(claim)
    assert list((node.state / "health").glob("*.json")) == []


async def test_false_alarm_is_cleared_by_an_annotation(gpu_node: GpuNode) -> None:
    """On a driver that does not say itself whether a GPU has to be recovered. A later fault is another one."""
    node, (first, _) = gpu_node, gpu_node.sim.gpus()
    await node.agent.stop()
    node.sim.reload_driver("550")
    await node.agent.start()
    await node.decide(TIME_SLICING, EXCLUSIVE)
    await node.offers("gpu-0-timeslicing", "gpu-1")

    async def annotate(value: str) -> None:
        patch = {"metadata": {"annotations": {"gpusharing.dev/cleared-faults": value}}}
        await node.admin.merge(f"/apis/gpusharing.dev/v1alpha1/nodesharings/{node.name}", patch)

    async def fault() -> str:
        node.sim.inject(faults.Xid(first.uuid, 48))
        await is_withheld(node, "FatalXid", "gpu-0-timeslicing")
        found = re.search(r"XID 48 at (\S+Z)", condition((await gpu(node))["conditions"], "Healthy")["message"])
        assert found
        return found[1]

    time = await fault()
    await annotate(f"gpu-1@{time}, gpu-0@2026-01-01T00:00:00Z")
    await has_looked_around(node)
    await is_withheld(node, "FatalXid", "gpu-0-timeslicing")
    await annotate(f"gpu-0@{time}")
    await is_well(node)
    assert list((node.state / "health").glob("*.json")) == []
    expected = [("Warning", "FatalXid"), ("Normal", "FaultCleared"), ("Normal", "GpuHealthy")]

    async def is_reported() -> None:
        assert sorted(await events(node)) == sorted(expected)

    await eventually(is_reported)
    # The times are of whole seconds.
    await asyncio.sleep(1)
    assert await fault() > time


async def test_error_of_a_program_is_told_and_keeps_nobody_away(gpu_node: GpuNode) -> None:
    node, (first, _) = gpu_node, gpu_node.sim.gpus()
    await node.decide(TIME_SLICING, EXCLUSIVE)
    await node.offers("gpu-0-timeslicing", "gpu-1")
    before = versions(await node.slices())
    node.sim.inject(faults.Xid(first.uuid, 31))

    async def is_told() -> None:
        told = condition((await gpu(node))["conditions"], "Healthy")
        assert (told["status"], told["reason"]) == ("True", "ProgramXid")
        assert "XID 31" in told["message"]

    await eventually(is_told)
    assert versions(await node.slices()) == before
    assert await events(node) == []
    assert list((node.state / "health").glob("*.json")) == []


async def test_gpu_that_is_lost_stays_until_it_is_back(gpu_node: GpuNode) -> None:
    """Also for an agent that starts while it is away: it cannot ask any more what GPU that was."""
    node, (first, _) = gpu_node, gpu_node.sim.gpus()
    await node.decide(TIME_SLICING, EXCLUSIVE)
    await node.offers("gpu-0-timeslicing", "gpu-1")
    claim, other = await node.claim(node.shared(0)), await node.claim(node.whole(1))
    await node.kubelet.prepare(claim)
    described = (await node.devices())["gpu-0-timeslicing"]

    node.sim.inject(faults.GpuLost(first.uuid))
    await is_withheld(node, "GpuLost", "gpu-0-timeslicing")
    await node.agent.restart()
    await has_looked_around(node)
    await is_withheld(node, "GpuLost", "gpu-0-timeslicing")
    assert {**(await node.devices())["gpu-0-timeslicing"], "taints": []} == described | {"taints": []}
    assert (await node.status_devices(claim))[0]["conditions"]
    # Neighbours are as they were, and the kubelet gets rid of what nobody can use any more.
    assert not (await node.kubelet.prepare(other))[other.uid].error
    assert await node.kubelet.unprepare(claim, other) == {claim.uid: "", other.uid: ""}
    assert node.prepared() == set()

    await node.agent.stop()
    node.sim.clear()
    await node.agent.start()
    await is_well(node)
    await node.offers("gpu-0-timeslicing", "gpu-1")
    assert list((node.state / "lost").glob("*.json")) == []


async def test_the_kubelet_hears_of_devices_in_use(gpu_node: GpuNode) -> None:
    node, (first, _) = gpu_node, gpu_node.sim.gpus()
    await node.decide(TIME_SLICING, EXCLUSIVE)
    await node.offers("gpu-0-timeslicing", "gpu-1")
    channel = Channel(path=str(node.endpoint))
    method = UnaryStreamMethod(
        channel,
        "/v1.DRAResourceHealth/NodeWatchResources",
        pb.NodeWatchResourcesRequest,
        pb.NodeWatchResourcesResponse,
    )

    def read(message: pb.NodeWatchResourcesResponse | None) -> list[tuple[str, str, int, str]]:
        assert message is not None
        assert all(device.health_check_timeout_seconds == 30 for device in message.devices)
        assert all(device.last_updated_time for device in message.devices)
        return [
            (device.device.pool_name, device.device.device_name, device.health, device.message)
            for device in message.devices
        ]

    async with method.open() as stream:
        await stream.send_message(pb.NodeWatchResourcesRequest(), end=True)
        assert read(await stream.recv_message()) == []
        claim = await node.claim(node.shared(0))
        await node.kubelet.prepare(claim)
        well = (node.name, "gpu-0-timeslicing", pb.HEALTHY, "")
        assert read(await stream.recv_message()) == [well]
        # Nothing has happened, and still: what is not heard of for long is unknown to the kubelet.
        assert read(await stream.recv_message()) == [well]
        node.sim.inject(faults.Xid(first.uuid, 95))
        ((pool, device, state, message),) = read(await stream.recv_message())
        assert (pool, device, state) == (node.name, "gpu-0-timeslicing", pb.UNHEALTHY)
        assert "XID 95" in message
        await node.kubelet.unprepare(claim)
        # The inspection after the error adds what the driver asks for.
        while found := read(await stream.recv_message()):
            assert [state for _, _, state, _ in found] == [pb.UNHEALTHY]
        await stream.cancel()
    channel.close()


async def test_what_cannot_be_mended_is_told_once_and_tried_seldom(gpu_node: GpuNode) -> None:
    """A MIG instance that somebody destroys under its claim."""
    node = gpu_node
    await node.decide(MIG, EXCLUSIVE)
    name = "gpu-0-mig-3g40gb-9-4"
    claim = await node.claim(node.whole(0, device=name))
    assert not (await node.kubelet.prepare(claim))[claim.uid].error
    for flag in ("-dci", "-dgi"):
        state = f"GPUSHARING_SIM_STATE={node.sim.state}"
        library = f"LD_LIBRARY_PATH={node.sim.library.parent}"
        await run(["env", state, library, node.sim.nvidia_smi, "mig", "-i", "0", flag])
    await node.agent.restart()

    async def is_told() -> None:
        told = await told_of(node, claim)
        assert (told["status"], told["reason"]) == ("False", "MigInstanceMissing")
        assert "delete the pods that use them" in told["message"]
        assert name in await taints(node)

    await eventually(is_told)
    # Until the report and its echo are through. A look at the GPUs is due once a minute.
    await asyncio.sleep(2)
    tried = len(node.log("GPU settings not applied"))
    await asyncio.sleep(4)
    assert len(node.log("GPU settings not applied")) <= tried + 1
    assert await node.kubelet.unprepare(claim) == {claim.uid: ""}
    await is_well(node)
