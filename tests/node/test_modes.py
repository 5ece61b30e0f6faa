"""One GPU that is offered in all four ways, and pods that take it so one after the other. Nobody acts in between."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gpusharing.sim import ComputeMode, MigMode, Timeslice
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.mounts import daemons_in
from harness.workloads import claim_spec, pod, policy, template
from node.user import SHARED, WHOLE, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

MIG = "mig.nvidia.com"
MPS = "mps.gpu.nvidia.com"
PROFILES = ("1g.10gb", "2g.20gb", "3g.40gb")

ALL_WAYS = policy(
    "all-ways",
    offers={
        "exclusive": {},
        "timeSlicing": {"maxClients": 2, "interval": "Short"},
        "mps": {
            "maxClients": 8,
            "memory": {"default": "8Gi", "min": "1Gi", "max": "32Gi"},
            "threads": {"default": 25, "min": 5},
        },
        "mig": {"profiles": list(PROFILES)},
    },
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(toolchain: Path) -> AsyncIterator[User]:
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:1") as cluster:
        yield User(cluster)


def of_profile(profile: str) -> dict[str, Any]:
    spec = claim_spec(MIG)
    expression = f"device.attributes['gpu.nvidia.com'].profile == '{profile}'"
    spec["devices"]["requests"][0]["exactly"]["selectors"] = [{"cel": {"expression": expression}}]
    return spec


def of_mps(memory: str, threads: int) -> dict[str, Any]:
    spec = claim_spec(MPS)
    requests = {"memory": memory, "threads": str(threads)}
    spec["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": requests}
    return spec


async def environment(user: User, name: str) -> dict[str, str]:
    lines = (await user.shell(name, "env")).splitlines()
    return dict(line.split("=", 1) for line in lines if line.startswith(("GPUSHARING_", "CUDA_MPS_")))


async def devices_of(user: User, name: str) -> set[str]:
    listed = await user.shell(name, "ls -d /dev/nvidia[0-9]* /dev/nvidia-caps/* 2>/dev/null || true")
    return {line.removeprefix("/dev/") for line in listed.split()}


async def test_all_four_ways_one_after_the_other(user: User) -> None:
    gpus = user.cluster.sim_node
    (before,) = gpus.gpus()
    await user.published("gpu-0")
    await user.apply(ALL_WAYS)
    await user.wait("sharingpolicy/all-ways", "--for=condition=Ready")
    await user.apply(
        template("share", claim_spec(SHARED)),
        template("whole", claim_spec(WHOLE)),
        template("small", of_mps("4Gi", 10)),
        template("large", of_mps("24Gi", 60)),
        *(template(f"mig-{number}", of_profile(profile)) for number, profile in enumerate(PROFILES, 1)),
    )

    # Shares first, and a MIG pod that waits until they have gone.
    await user.apply(pod("share-1", template="share"), pod("share-2", template="share"))
    await user.running(2)
    await user.apply(pod("mig-1", template="mig-1"))
    await user.running(2, pending=1)
    assert gpus.gpus()[0].timeslice is Timeslice.SHORT
    await asyncio.sleep(1)
    await user.running(2, pending=1)
    await user.delete("pod", "share-1", "share-2")
    await user.wait("pod/mig-1", "--for=condition=Ready")

    # Three profiles beside each other, each pod with its own instance.
    await user.apply(pod("mig-2", template="mig-2"), pod("mig-3", template="mig-3"))
    await user.running(3)
    (cut,) = gpus.gpus()
    assert cut.mig_mode == MigMode(current=True, pending=True)
    assert {instance.profile for instance in cut.gpu_instances} == set(PROFILES)
    made = {instance.compute_instances[0].uuid for instance in cut.gpu_instances}
    seen = [
        value
        for number in (1, 2, 3)
        for name, value in (await environment(user, f"mig-{number}")).items()
        if value.startswith("MIG-")
    ]
    assert sorted(seen) == sorted(made)
    for number in (1, 2, 3):
        devices = await devices_of(user, f"mig-{number}")
        assert f"nvidia{cut.minor}" in devices
        assert len([name for name in devices if name.startswith("nvidia-caps/")]) == 2
    await user.apply(pod("whole-1", template="whole"))
    await user.running(3, pending=1)
    await user.delete("pod", "mig-1", "mig-2", "mig-3", "whole-1")

    # Two MPS pods with different limits; the daemon runs, and nothing but MPS gets at the GPU.
    await user.apply(pod("mps-1", template="small"), pod("mps-2", template="large"))
    await user.running(2)
    assert gpus.gpus()[0].gpu_instances == ()
    assert gpus.gpus()[0].compute_mode is ComputeMode.EXCLUSIVE_PROCESS
    for name, memory, threads in (("mps-1", 4096, "10"), ("mps-2", 24576, "60")):
        told = await environment(user, name)
        assert told["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"0={memory}M"
        assert told["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == threads
        assert told["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"
        assert "control" in await user.shell(name, "ls /tmp/nvidia-mps")
    await _have_shared_memory(user, "mps-1", "mps-2")
    await user.delete("pod", "mps-1", "mps-2")

    # The whole GPU at last.
    await user.apply(pod("whole-2", template="whole"))
    await user.wait("pod/whole-2", "--for=condition=Ready")
    assert gpus.gpus()[0].compute_mode is ComputeMode.DEFAULT
    await user.delete("pods", "--all")
    await user.delete("sharingpolicy", "all-ways")
    await user.nothing_prepared()

    async def as_before() -> None:
        assert gpus.gpus() == [before]
        assert daemons_in(user.cluster.mps_directory(user.cluster.node)) == []

    await eventually(as_before)
    await user.published("gpu-0")


async def _have_shared_memory(user: User, *names: str) -> None:
    """With each other and with their daemon, and with nobody else on the node."""
    await user.shell(names[0], "echo hello > /dev/shm/of-mps")
    for name in names:
        assert await user.shell(name, "cat /dev/shm/of-mps") == "hello\n"
    (daemon,) = user.cluster.sim_node.mps_daemons()
    assert _reads("/dev/shm/of-mps", f"/proc/{daemon.pid}/root") == "hello\n"
    assert _reads("/dev/shm/of-mps") is None


def _reads(file: str, root: str = "") -> str | None:
    path = Path(root + file)
    return path.read_text() if path.exists() else None


async def test_the_example_of_a_layout(user: User) -> None:
    gpus = user.cluster.sim_node
    await user.cluster.kubectl("apply", "--filename=docs/examples/mig-layout.yaml")
    await user.wait("sharingpolicy/mig-layout", "--for=condition=Ready")
    await user.wait("pod/half", "--for=condition=Ready")
    (cut,) = gpus.gpus()
    layout = sorted((instance.profile, instance.compute_instances[0].uuid) for instance in cut.gpu_instances)
    assert [profile for profile, _ in layout] == [*["1g.10gb"] * 4, "3g.40gb"]
    [seen] = [uuid for uuid in (await environment(user, "half")).values() if uuid.startswith("MIG-")]
    assert seen == dict(layout)["3g.40gb"]
    # Its program does not end when it is asked to.
    await user.delete("pod", "half", "--now")
    await user.delete("resourceclaimtemplate", "half-a-gpu")
    await user.delete("sharingpolicy", "mig-layout")
    await user.nothing_prepared()
    (after,) = gpus.gpus()
    assert (after.gpu_instances, after.mig_mode) == ((), MigMode(current=False, pending=False))
