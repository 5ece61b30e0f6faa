"""A driver that takes 2 s for each change of MIG, and a pod for every instance that eight GPUs can have, at once."""

import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from gpusharing import sim
from gpusharing.sim import Quirk
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.node import Node
from harness.workloads import claim_spec, pod, policy, template
from node.user import User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

GPUS: Final = 8
PODS: Final = 7 * GPUS
# For one GPU the driver takes 30 s: 2 s for MIG mode and for each half of seven instances.
WITHIN: Final = 120.0


@dataclass(kw_only=True, eq=False, repr=False)
class SlowCluster(GpuCluster):
    gpus: str = f"H100-80GB:{GPUS}"

    def _simulate(self, node: Node) -> sim.SimNode:
        simulated = sim.create(node.directory / "gpus", self.gpus, seed=node.name, quirks=Quirk.SLOW_NVML)
        etc, _ = node.cdi_dirs
        shutil.copytree(simulated.cdi, etc, dirs_exist_ok=True)
        return simulated


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(toolchain: Path) -> AsyncIterator[User]:
    async with SlowCluster(node_names=["node-1"]) as cluster:
        yield User(cluster)


async def test_a_pod_for_each_instance(user: User) -> None:
    offers = {"mig": {"profiles": ["1g.10gb"]}}
    await user.apply(policy("parts", offers=offers), template("part", claim_spec("mig.nvidia.com")))
    await user.wait("sharingpolicy/parts", "--for=condition=Ready")
    await user.apply(*(pod(f"part-{number}", template="part") for number in range(PODS)))

    async def all_run() -> None:
        assert len(await user.pods("Running")) == PODS

    await eventually(all_run, within=WITHIN)
    assert [len(gpu.gpu_instances) for gpu in user.cluster.sim_node.gpus()] == [7] * GPUS
