"""A node on which each step of MIG takes two seconds: as many pods as it has room for, all at once."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from gpusharing.sim import Quirk
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.workloads import claim_spec, pod, policy, template
from node.user import User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

GPUS: Final = 8
PODS: Final = 7 * GPUS
PREPARED_WITHIN: Final = 120.0
"""Of a GPU alone: MIG mode, and two steps for each of seven instances, which makes half a minute."""
RUNNING_WITHIN: Final = 300.0
"""The rest is up to the machine: containerd starts two containers for each pod on it."""
SLICES: Final = policy("slices", offers={"mig": {"profiles": ["1g.10gb"]}})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(toolchain: Path) -> AsyncIterator[User]:
    async with GpuCluster(node_names=["node-1"], gpus=f"H100-80GB:{GPUS}", quirks=Quirk.SLOW_NVML) as cluster:
        yield User(cluster)


async def test_as_many_pods_as_there_is_room_for(user: User) -> None:
    await user.apply(SLICES)
    await user.wait("sharingpolicy/slices", "--for=condition=Ready")
    await user.apply(template("slice", claim_spec("mig.nvidia.com")))
    await user.apply(*(pod(f"pod-{number}", template="slice") for number in range(PODS)))
    began = time.monotonic()

    async def are_prepared() -> None:
        claims: list[dict[str, Any]] = (await user.get("nodesharing", "node-1"))["status"]["claims"]
        assert len(claims) == PODS

    await eventually(are_prepared, within=PREPARED_WITHIN)
    prepared = time.monotonic() - began

    async def are_running() -> None:
        assert len(await user.pods("Running")) == PODS

    await eventually(are_running, within=RUNNING_WITHIN)
    print(f"{PODS} pods: prepared after {prepared:.0f} s, running after {time.monotonic() - began:.0f} s")
    made = [gpu.gpu_instances for gpu in user.cluster.sim_node.gpus()]
    assert [len(instances) for instances in made] == [PODS // GPUS] * GPUS
    # The kubelet has given up none of them, not even once.
    events = (await user.get("events"))["items"]
    assert [event["message"] for event in events if event["reason"] == "FailedPrepareDynamicResources"] == []
