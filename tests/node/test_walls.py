"""Memory walls from a policy to containers, with the real kubelet, containerd, runc and NVIDIA's hook, and with our
operator and agent; only the driver is simulated."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.walls.site import held_to
from gpusharing.agent.walls.build import build
from gpusharing.agent.walls.directories import NotedContainer, WallDirectories
from gpusharing.agent.walls.program import NAME
from gpusharing.agent.walls.use import memory_uses
from gpusharing.nvidia.memory_walls import MemoryUse
from gpusharing.sim import faults
from harness.eventually import eventually
from harness.workloads import claim, pod, policy
from node.user import SHARED, User
from node.walled_cluster import WalledCluster
from nvidia.nodes import opened

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
SHARES = ("gpu-0-timeslicing", "gpu-1-timeslicing")
WITH_WALL = "device.attributes['gpusharing.dev'].?memoryWall.orValue(false)"
NO_LIMITS = faults.CallFails("nvmlDeviceSetMemoryLimits_v1", 3)


class Tenant(User):
    """What she gets is seen from the node."""

    def __init__(self, cluster: WalledCluster) -> None:
        super().__init__(cluster)
        self.gpus = cluster.sim_node
        self.cgroups = cluster.node.seen_from_outside("/sys/fs/cgroup")
        self.walls = WallDirectories(cluster.state_directory(cluster.node) / "walls")

    async def ready(self, name: str) -> None:
        await self.wait(f"pod/{name}", "--for=condition=Ready")

    async def uid(self, claim_name: str) -> str:
        return str((await self.get("resourceclaim", claim_name))["metadata"]["uid"])

    async def gets(self, name: str, gpu: int, memory: str) -> bool:
        """Whether a CUDA process in the pod gets this much."""
        program, device = self.gpus.directory / "bin/cuda-process", f"--gpu={self.gpus.gpus()[gpu].uuid}"
        said = await self.shell(name, f"{program} {device} --memory={memory} --seconds=0.1 2>&1 || true")
        assert ("CUDA error 2: " in said) != ('"memory": ' in said), said
        return '"memory": ' in said

    async def uses(self, claim_name: str, index: int = 0, gpu: int = 0) -> list[MemoryUse | None]:
        """Of the containers of one of the claim's devices that are there, by the driver's word."""
        noted = self.walls.containers(await self.uid(claim_name), index)
        async with opened(self.gpus) as hardware:
            return list((await memory_uses(hardware, self.gpus.gpus()[gpu].uuid, self.cgroups, noted)).values())

    def kill(self, container: NotedContainer) -> None:
        for pid in (container.seen_from(self.cgroups) / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)

    async def is_told(self, name: str, *words: str) -> None:
        """By the pod's events, which are all that its owner sees."""

        async def check() -> None:
            events = (await self.get("events", f"--field-selector=involvedObject.name={name}"))["items"]
            messages = [event["message"] for event in events]
            assert any(all(word in message for word in words) for message in messages), messages

        await eventually(check)

    def shares(self, name: str, *memory: str | None, selector: str = "") -> dict[str, Any]:
        """For shares of so many GPUs, each with an amount of its own or what the policy gives."""
        requests = []
        for gpu, amount in enumerate(memory or (None,)):
            expression = selector or f"device.attributes['gpu.nvidia.com'].uuid == '{self.gpus.gpus()[gpu].uuid}'"
            exactly: dict[str, Any] = {"deviceClassName": SHARED, "selectors": [{"cel": {"expression": expression}}]}
            if amount:
                exactly["capacity"] = {"requests": {"memory": amount}}
            requests.append({"name": f"gpu-{gpu}", "exactly": exactly})
        return claim(name, {"devices": {"requests": requests}})

    def pod_of(self, name: str, claim_name: str, **variables: str) -> dict[str, Any]:
        """One that has the simulated driver, and whatever a tenant may set."""
        made = pod(name, claim=claim_name)
        directory = str(self.gpus.directory)
        made["spec"]["volumes"] = [{"name": "driver", "hostPath": {"path": directory}}]
        (container,) = made["spec"]["containers"]
        container["volumeMounts"] = [{"name": "driver", "mountPath": directory}]
        container["env"] = [{"name": name, "value": value} for name, value in variables.items()]
        return made

    async def nothing_prepared(self) -> None:
        await super().nothing_prepared()

        async def no_walls() -> None:
            assert self.walls.claims() == []

        await eventually(no_walls)

    async def attributes(self) -> dict[str, bool | None]:
        """Whether each device that is offered says that it has a wall."""
        slices = (await self.get("resourceslices"))["items"]
        devices = [device for item in slices for device in item["spec"].get("devices", [])]
        return {
            device["name"]: device["attributes"].get("gpusharing.dev/memoryWall", {}).get("bool") for device in devices
        }


def walls(enforcement: str) -> dict[str, Any]:
    memory = {"default": "4Gi", "min": "1Gi", "enforcement": enforcement}
    return policy("walls", offers={"timeSlicing": {"maxClients": 4, "interval": "Medium", "memory": memory}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenant(
    toolchain: Path, nvidia_tools: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Tenant]:
    # As the image has it.
    program = tmp_path_factory.mktemp("image") / NAME
    build(program)
    options = ("--wall-program", program)
    async with WalledCluster(node_names=["node-1"], nvidia_tools=nvidia_tools, agent_options=options) as cluster:
        tenant = Tenant(cluster)
        await tenant.apply(walls("Required"))
        await tenant.wait("sharingpolicy/walls", "--for=condition=Ready")
        yield tenant


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_is_left(tenant: Tenant) -> AsyncIterator[None]:
    yield
    tenant.gpus.clear()
    await tenant.delete("pods", "--all")
    await tenant.delete("resourceclaims", "--all")
    await tenant.nothing_prepared()


async def test_gpu_that_can_have_no_walls_is_not_offered_and_the_policy_says_why(tenant: Tenant) -> None:
    async def offered() -> None:
        assert await tenant.attributes() == dict.fromkeys(SHARES, True)

    await eventually(offered)
    without = tenant.gpus.gpus()[2].uuid
    reason = "the driver has no memory limits for this GPU"
    conditions = (await tenant.get("sharingpolicy", "walls"))["status"]["conditions"]
    (degraded,) = (condition for condition in conditions if condition["type"] == "Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "MemoryWallUnsupported")
    assert f"{without} of node-1: offers.timeSlicing.memory.enforcement is Required, but" in degraded["message"]
    assert f"({reason})" in degraded["message"]
    gpus = (await tenant.get("nodesharing", "node-1"))["status"]["gpus"]
    told = {gpu["uuid"]: gpu["memoryWall"] for gpu in gpus}
    supported = {gpu.uuid: {"supported": True} for gpu in tenant.gpus.gpus()}
    assert told == supported | {without: {"supported": False, "reason": reason}}


async def test_two_gpus_are_held_against_all_that_a_tenant_sets(tenant: Tenant) -> None:
    await tenant.apply(tenant.shares("two-gpus", None, "16Gi"), tenant.pod_of("tenant", "two-gpus", **VARIABLES))
    await tenant.ready("tenant")
    assert await tenant.uses("two-gpus", 0, gpu=0) == [held_to(4096)]
    assert await tenant.uses("two-gpus", 1, gpu=1) == [held_to(16384)]
    assert [await tenant.gets("tenant", 0, size) for size in ("4G", "5G")] == [True, False]
    assert [await tenant.gets("tenant", 1, size) for size in ("16G", "17G")] == [True, False]
    assert f"NVIDIA_GPU_MEMORY_LIMIT={ALL_OF_IT}" in await tenant.shell("tenant", "env")
    await _everybody_can_read_the_limits(tenant, await tenant.uid("two-gpus"))


async def _everybody_can_read_the_limits(tenant: Tenant, uid: str) -> None:
    expected = [{"limit": limit, "enforcement": "Required"} for limit in (4096, 16384)]
    sources = {"interval": "policy/walls", "memory": "allocation"}

    async def told() -> None:
        devices = (await tenant.get("resourceclaim", "two-gpus"))["status"]["devices"]
        assert [(device["data"]["memory"], device["data"]["from"]) for device in devices] == [
            (memory, sources) for memory in expected
        ]
        sharing = await tenant.get("nodesharing", "node-1")
        for half in (sharing["spec"], sharing["status"]):
            (entry,) = (entry for entry in half["claims"] if entry["uid"] == uid)
            assert [settings["memory"] for settings in entry["settings"]] == expected

    await eventually(told)


async def test_second_pod_of_a_claim_waits_for_the_first(tenant: Tenant) -> None:
    await tenant.apply(tenant.shares("shared"), tenant.pod_of("first", "shared"))
    await tenant.ready("first")
    await tenant.apply(tenant.pod_of("second", "shared"))
    await tenant.is_told("second", "memory wall: claim default/shared may have 4096 MiB", "Give each container a claim")
    assert await tenant.uses("shared") == [held_to(4096)]
    assert await tenant.gets("first", 0, "4G")
    await tenant.delete("pod", "first")
    await tenant.ready("second")
    assert await tenant.uses("shared") == [held_to(4096)]
    assert not await tenant.gets("second", 0, "5G")


async def test_restarted_container_replaces_its_predecessor(tenant: Tenant) -> None:
    """With another agent than the one that has prepared it."""
    await tenant.apply(tenant.shares("restarted"), tenant.pod_of("restarted", "restarted"))
    await tenant.ready("restarted")
    await tenant.cluster.agent.kill()
    uid = await tenant.uid("restarted")
    (before,) = tenant.walls.containers(uid, 0)
    tenant.kill(before)

    async def another_runs() -> None:
        (now,) = tenant.walls.containers(uid, 0)
        assert now != before

    await eventually(another_runs)
    await tenant.cluster.agent.start()
    await tenant.ready("restarted")
    assert not await tenant.gets("restarted", 0, "5G")
    assert await tenant.uses("restarted") == [held_to(4096)]


async def test_wall_that_is_required_and_fails(tenant: Tenant) -> None:
    tenant.gpus.inject(NO_LIMITS)
    await tenant.apply(tenant.shares("broken"), tenant.pod_of("broken", "broken"))
    await tenant.is_told("broken", "memory wall: claim default/broken may have 4096 MiB", "does not start", "Supported")


async def test_preferred_walls_stand_where_they_can(tenant: Tenant) -> None:
    """The policy changes while a claim is there, which keeps the wall that it has."""
    await tenant.apply(tenant.shares("early"), tenant.pod_of("early", "early"))
    await tenant.ready("early")
    await tenant.apply(walls("Preferred"))

    async def offered() -> None:
        assert await tenant.attributes() == dict.fromkeys(SHARES, True) | {"gpu-2-timeslicing": False}

    await eventually(offered)
    await tenant.apply(tenant.shares("held", selector=WITH_WALL), tenant.pod_of("held", "held"))
    await tenant.ready("held")
    assert await tenant.uses("held") == [held_to(4096)]
    tenant.gpus.inject(NO_LIMITS)
    await tenant.apply(tenant.shares("missed"), tenant.pod_of("missed", "missed"))
    await tenant.ready("missed")
    assert "Not Supported" in (tenant.walls.failure(await tenant.uid("missed"), 0) or "")
    assert await tenant.uses("missed") == [None]
    assert await tenant.gets("missed", 0, "5G")
    # Whoever was held before still is.
    assert (await tenant.uses("early"), await tenant.uses("held")) == ([held_to(4096)], [held_to(4096)])
