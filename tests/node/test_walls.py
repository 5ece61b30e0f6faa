"""Memory walls with the real kubelet, containerd, runc and NVIDIA's hook; only the driver is simulated."""

import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.hardware.nodes import opened
from agent.walls.site import held_to
from gpusharing import sim
from gpusharing.agent.hardware.facts import MemoryUse
from gpusharing.agent.walls.build import build
from gpusharing.agent.walls.directories import NotedContainer
from gpusharing.agent.walls.use import memory_uses
from gpusharing.agent.walls.wall import Enforcement
from harness.cluster import Cluster
from harness.eventually import eventually
from harness.workloads import claim, pod
from node.wall_plugin import DRIVER, WallPlugin, Wanted, serving
from nvidia.machine import machine
from nvidia.toolkit import Toolkit

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

ALL_OF_IT = "81559"
VARIABLES = {
    "NVIDIA_GPU_MEMORY_LIMIT": ALL_OF_IT,
    "NVIDIA_GPU_MEMORY_REQUEST": ALL_OF_IT,
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_DRIVER_CAPABILITIES": "all",
    "NVIDIA_DISABLE_REQUIRE": "1",
    "NVIDIA_CTK_DEBUG": "true",
}
WANTED = {
    "two-gpus": Wanted((4096, 16384)),
    "shared": Wanted((4096,)),
    "restarted": Wanted((4096,)),
    "broken": Wanted((4096,), nvidia_hook=Path("/nowhere/nvidia-cdi-hook")),
    "preferred": Wanted((4096,), Enforcement.PREFERRED, nvidia_hook=Path("/nowhere/nvidia-cdi-hook")),
}


class World:
    def __init__(self, cluster: Cluster, gpus: sim.SimNode, plugin: WallPlugin) -> None:
        self.cluster = cluster
        self.gpus = gpus
        self.plugin = plugin
        self.cgroups = cluster.node.seen_from_outside("/sys/fs/cgroup")

    async def apply(self, *objects: dict[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        await self.cluster.kubectl("apply", "--filename=-", stdin=json.dumps(listed))

    async def ready(self, name: str) -> None:
        await self.cluster.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=60s")

    async def delete(self, *arguments: str) -> None:
        await self.cluster.kubectl("delete", *arguments)

    async def gets(self, name: str, gpu: int, memory: str) -> bool:
        """Whether a CUDA process in the pod gets this much."""
        program, device = self.gpus.directory / "bin/cuda-process", f"--gpu={self.gpus.gpus()[gpu].uuid}"
        command = f"{program} {device} --memory={memory} --seconds=0.1 2>&1 || true"
        said = await self.cluster.kubectl("exec", name, "--", "sh", "-c", command)
        assert ("CUDA error 2: " in said) != ('"memory": ' in said), said
        return '"memory": ' in said

    async def uses(self, claim_name: str, gpu: int = 0) -> list[MemoryUse | None]:
        """Of the claim's containers that are there, as the agent finds them."""
        noted = self.plugin.walls.containers(self.plugin.uids[claim_name], gpu)
        async with opened(self.gpus) as hardware:
            return list((await memory_uses(hardware, self.gpus.gpus()[gpu].uuid, self.cgroups, noted)).values())

    def kill(self, container: NotedContainer) -> None:
        for pid in (container.seen_from(self.cgroups) / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)

    async def is_told(self, name: str, *words: str) -> None:
        """By the pod's events, which are all that its owner sees."""

        async def check() -> None:
            selector = f"--field-selector=involvedObject.name={name}"
            events = json.loads(await self.cluster.kubectl("get", "events", selector, "--output=json"))["items"]
            messages = [event["message"] for event in events]
            assert any(all(word in message for word in words) for message in messages), messages

        await eventually(check, within=30)


def claim_of(name: str) -> dict[str, Any]:
    requests = [
        {"name": f"gpu-{index}", "exactly": {"deviceClassName": DRIVER}}
        for index in range(len(WANTED[name].limits_mib))
    ]
    return claim(name, {"devices": {"requests": requests}})


def pod_of(world: World, name: str, claim_name: str, **variables: str) -> dict[str, Any]:
    """One that has the simulated driver, and whatever a tenant may set."""
    made = pod(name, claim=claim_name)
    directory = str(world.gpus.directory)
    made["spec"]["volumes"] = [{"name": "driver", "hostPath": {"path": directory}}]
    (container,) = made["spec"]["containers"]
    container["volumeMounts"] = [{"name": "driver", "mountPath": directory}]
    container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
    return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(toolchain: Path, nvidia_tools: Path) -> AsyncIterator[World]:
    async with Cluster(node_names=["node-1"], with_cgroup2=True) as cluster:
        directory = cluster.node.directory
        gpus = sim.create(directory / "gpus", "H100-80GB:2", driver="615")
        with machine(gpus) as where:
            Toolkit.installed(nvidia_tools, where, gpus).generate(cluster.node.cdi_dirs[0] / "nvidia.json")
        build(directory / "bin/gpusharing-wall")
        plugin = WallPlugin(cluster.node, gpus, directory / "bin/gpusharing-wall", WANTED)
        async with serving(cluster, plugin):
            yield World(cluster, gpus, plugin)


async def test_two_gpus_are_held_against_all_that_a_tenant_sets(world: World) -> None:
    await world.apply(claim_of("two-gpus"), pod_of(world, "tenant", "two-gpus", **VARIABLES))
    await world.ready("tenant")
    assert (await world.uses("two-gpus", 0), await world.uses("two-gpus", 1)) == ([held_to(4096)], [held_to(16384)])
    assert [await world.gets("tenant", 0, size) for size in ("4G", "5G")] == [True, False]
    assert [await world.gets("tenant", 1, size) for size in ("16G", "17G")] == [True, False]
    environment = await world.cluster.kubectl("exec", "tenant", "--", "env")
    assert f"NVIDIA_GPU_MEMORY_LIMIT={ALL_OF_IT}" in environment
    await world.delete("pod", "tenant")

    async def nothing_is_left() -> None:
        assert world.plugin.walls.claims() == []

    await eventually(nothing_is_left)


async def test_second_pod_of_a_claim_waits_for_the_first(world: World) -> None:
    await world.apply(claim_of("shared"), pod_of(world, "first", "shared"))
    await world.ready("first")
    await world.apply(pod_of(world, "second", "shared"))
    await world.is_told("second", "memory wall: claim default/shared may have 4096 MiB", "Give each container a claim")
    assert await world.uses("shared") == [held_to(4096)]
    assert await world.gets("first", 0, "4G")
    await world.delete("pod", "first")
    await world.ready("second")
    assert await world.uses("shared") == [held_to(4096)]
    assert not await world.gets("second", 0, "5G")
    await world.delete("pod", "second")


async def test_restarted_container_replaces_its_predecessor(world: World) -> None:
    await world.apply(claim_of("restarted"), pod_of(world, "restarted", "restarted"))
    await world.ready("restarted")
    uid = world.plugin.uids["restarted"]
    (before,) = world.plugin.walls.containers(uid, 0)
    world.kill(before)

    async def another_runs() -> None:
        (now,) = world.plugin.walls.containers(uid, 0)
        assert now != before

    await eventually(another_runs, within=30)
    await world.ready("restarted")
    assert not await world.gets("restarted", 0, "5G")
    assert await world.uses("restarted") == [held_to(4096)]
    await world.delete("pod", "restarted")


async def test_hook_that_is_missing(world: World) -> None:
    await world.apply(claim_of("broken"), pod_of(world, "broken", "broken"))
    await world.apply(claim_of("preferred"), pod_of(world, "preferred", "preferred"))
    await world.is_told("broken", "does not start: /nowhere/nvidia-cdi-hook: No such file", "Install nvidia-container")
    await world.ready("preferred")
    failure = world.plugin.walls.failure(world.plugin.uids["preferred"], 0)
    assert "/nowhere/nvidia-cdi-hook: No such file or directory" in (failure or "")
    assert await world.uses("preferred") == [None]
    assert await world.gets("preferred", 0, "5G")
    await world.delete("pod", "broken", "preferred")
