"""A whole agent on a real API server, whose files others remove and whose disk is full."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from agent.kubelet.registrar import notify
from agent.on_cluster import RESOURCE, GpuNode
from gpusharing.sim import faults
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.mounts import mount

pytestmark = pytest.mark.cluster


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
        mount("-t", "tmpfs", "-o", "size=1m", "tmpfs", node.state)
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


@contextmanager
def mounted(source: Path, target: Path) -> Iterator[None]:
    """A directory of the node, in the agent's container."""
    for directory in (source, target):
        directory.mkdir(parents=True, exist_ok=True)
    mount("--bind", source, target)
    try:
        yield
    finally:
        umount("--lazy", str(target))


def remove(directory: Path) -> None:
    shutil.rmtree(directory)


def move(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("name", "lose"),
    [
        ("cdi", remove),
        ("cdi", move),
        ("state", remove),
        ("mps", remove),
        ("kubelet/plugins", remove),
        ("kubelet/plugins_registry", move),
    ],
)
async def test_a_mounted_directory_that_the_node_has_no_more(
    installed: ControlPlane, tmp_path: Path, name: str, lose: Any
) -> None:
    """The next container has what the node has then."""
    on_the_node = tmp_path / name
    async with GpuNode(installed, start=False) as node:
        directory = node.directory / name
        with mounted(on_the_node, directory):
            await node.agent.start()
            await node.decide(None, None)
            claim = await node.claim(node.whole())
            assert not (await node.kubelet.prepare(claim))[claim.uid].error
            specs = node.specs()
            lose(on_the_node)

            async def has_ended() -> None:
                assert not node.agent.running

            await eventually(has_ended)
        [end] = node.log("agent cannot run")
        assert f"directory that is mounted at {directory} was removed or moved" in end["error"]
        with mounted(on_the_node, directory):
            await node.agent.start()

            async def is_as_before() -> None:
                assert node.specs() == specs
                assert node.prepared() == {claim.uid}

            await eventually(is_as_before)
            other = await node.claim(node.whole(1))
            assert not (await node.kubelet.prepare(other))[other.uid].error
            assert await node.kubelet.unprepare(claim, other) == {claim.uid: "", other.uid: ""}
            await node.agent.stop()
