"""The agent's state directory is lost while pods run. Containers that start again find what they had."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.workloads import claim_spec, policy, template
from node.test_life import CLASSES, OFFERS, Witnesses
from node.user import User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: Path) -> AsyncIterator[GpuCluster]:
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:3") as cluster:
        yield cluster


async def test_state_directory_is_lost(cluster: GpuCluster) -> None:
    user, node = User(cluster), cluster.node
    ways = ("share", "whole")
    await user.apply(policy("all-ways", offers=OFFERS), *(template(way, claim_spec(CLASSES[way])) for way in ways))
    await user.wait("sharingpolicy/all-ways", "--for=condition=Ready")
    witnesses = Witnesses(user)
    for way in ways:
        await witnesses.begin(way, way)
    state, home = cluster.state_directory(node), node.cdi_dirs[1]

    async def reported() -> None:
        assert len((await user.get("nodesharing", "node-1"))["status"]["claims"]) == 2

    await eventually(reported)
    claims = {path.name for path in (state / "claims").glob("*.json")}
    specs = {path.name: path.read_bytes() for path in home.iterdir()}
    await cluster.agent.kill()
    for path in state.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    await cluster.agent.start()

    async def recovered() -> None:
        assert {path.name for path in (state / "claims").glob("*.json")} == claims
        conditions = (await user.get("nodesharing", "node-1"))["status"]["conditions"]
        [trusted] = [one for one in conditions if one["type"] == "StateTrusted"]
        assert (trusted["status"], trusted["reason"]) == ("False", "StateLost")

    await eventually(recovered)
    assert {path.name: path.read_bytes() for path in home.iterdir()} == specs
    await witnesses.are_undisturbed()
    for way in ways:
        await witnesses.end_container(way)
    await user.delete("pods", "--all", "--force", "--grace-period=0")
    await user.nothing_prepared()
