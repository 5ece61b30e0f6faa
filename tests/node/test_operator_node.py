"""A node as NVIDIA's GPU operator makes it, with the real kubelet and containerd: its driver is elsewhere, and
no CDI spec is for everybody."""

import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from gpusharing import sim
from gpusharing.sim import Quirk
from harness.gpu_cluster import GpuCluster
from harness.node import Node
from harness.workloads import claim, claim_spec, pod, time_slicing
from node.user import SHARED, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]


@dataclass(kw_only=True, eq=False, repr=False)
class OperatorCluster(GpuCluster):
    nvidia_tools: Path
    gpus: str = "H100-80GB"

    def _simulate(self, node: Node) -> sim.SimNode:
        quirks = Quirk.OPERATOR_ROOT | Quirk.NO_CDI
        simulated = sim.create(node.directory / "gpus", self.gpus, seed=node.name, quirks=quirks)
        etc, _ = node.cdi_dirs
        shutil.copytree(simulated.cdi, etc, dirs_exist_ok=True)
        toolkit = simulated.directory / "usr/local/nvidia/toolkit"
        toolkit.mkdir(parents=True)
        for program in ("nvidia-ctk", "nvidia-cdi-hook"):
            shutil.copy2(self.nvidia_tools / program, toolkit / program)
        return simulated


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(toolchain: Path, nvidia_tools: Path) -> AsyncIterator[User]:
    async with OperatorCluster(node_names=["node-1"], nvidia_tools=nvidia_tools) as cluster:
        yield User(cluster)


async def test_pods_share_a_gpu(user: User) -> None:
    gpu = user.cluster.sim_node.gpus()[0]
    await user.apply(time_slicing("shared", interval="Long"))
    await user.wait("sharingpolicy/shared", "--for=condition=Ready")
    await user.apply(claim("one", claim_spec(SHARED)), pod("first", claim="one"))
    await user.running(1)
    found = await user.shell("first", "ls /dev/nvidia* && env | grep ^GPUSHARING_")
    assert f"/dev/nvidia{gpu.minor}" in found
    assert f"GPUSHARING_GPU_0={gpu.uuid}" in found
    assert user.cluster.sim_node.gpus()[0].timeslice is sim.Timeslice.LONG
    # By the spec that the node's own nvidia-ctk has written.
    _, run = user.cluster.node.cdi_dirs
    assert (run / "gpusharing.dev-gpu.json").exists()
