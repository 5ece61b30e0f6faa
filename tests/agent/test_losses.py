"""A whole agent on a real API server, whose files others remove and whose disk is full."""

import shutil
import subprocess
from contextlib import suppress
from typing import Any

import pytest

from agent.kubelet.registrar import notify
from agent.on_cluster import RESOURCE, GpuNode
from gpusharing.sim import faults
from harness.controlplane import ControlPlane
from harness.eventually import eventually

pytestmark = pytest.mark.cluster


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def umount(*arguments: str) -> None:
    subprocess.run(["umount", *arguments], check=True)


async def ready(node: GpuNode) -> Any:
    return next(one for one in (await node.sharing())["status"]["conditions"] if one["type"] == "Ready")


async def test_what_others_remove_is_there_again_within_seconds(gpu_node: GpuNode) -> None:
    node = gpu_node
    await node.decide(None, None)
    claim = await node.claim(node.whole())
    assert not (await node.kubelet.prepare(claim))[claim.uid].error
    specs = node.specs()
    shutil.rmtree(node.cdi)
    for socket in (node.endpoint, node.registration):
        shutil.rmtree(socket.parent)

    async def is_restored() -> None:
        assert node.specs() == specs
        assert node.endpoint.is_socket()
        assert node.registration.is_socket()

    await eventually(is_restored)
    # The kubelet forgets a driver without a socket, and deletes its slices.
    for slice_ in await node.slices():
        await node.admin.call("DELETE", f"{RESOURCE}/resourceslices/{slice_['metadata']['name']}")

    async def is_known() -> None:
        assert node.log("slices deleted by others, made again when the kubelet registers the driver")

    await eventually(is_known)
    assert await node.slices() == []
    await notify(node.registration, registered=True)

    async def is_published() -> None:
        assert len(await node.devices()) == 2

    await eventually(is_published)
    assert await node.kubelet.unprepare(claim) == {claim.uid: ""}


async def test_a_full_disk_does_not_hide_a_broken_gpu(installed: ControlPlane) -> None:
    async with GpuNode(installed, start=False) as node:
        node.state.mkdir()
        mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", str(node.state))
        try:
            await node.agent.start()
            await node.decide(None, None)
            filling = node.state / "filling"
            with suppress(OSError), filling.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(512))
            node.sim.inject(faults.Xid(node.sim.gpus()[0].uuid, 48))

            async def is_tainted() -> None:
                taints = (await node.devices())["gpu-0"].get("taints", [])
                assert [taint["key"] for taint in taints] == ["gpusharing.dev/unhealthy"]
                told = await ready(node)
                assert told["reason"] == "StateNotWritable"
                assert f"{node.state}/health/" in told["message"]
                assert "No space left on device: make room" in told["message"]

            await eventually(is_tainted)
            filling.unlink()

            async def is_over() -> None:
                assert (await ready(node))["reason"] == "GpuUnhealthy"

            await eventually(is_over)
            assert [path.stem for path in (node.state / "health").iterdir()] == [node.sim.gpus()[0].uuid]
            await node.agent.stop()
        finally:
            await node.agent.kill()
            umount("--lazy", str(node.state))
