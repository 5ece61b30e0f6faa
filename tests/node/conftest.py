"""Real kubelet and containerd, our own programs, simulated GPUs. Where no node can run, the tests say so."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from harness.gpu_cluster import GpuCluster
from harness.node import node_unavailable_reason


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = node_unavailable_reason()
    # In CI a node test that does not run is a failure: nobody would read the summary.
    if reason is None or os.environ.get("CI") == "true":
        return
    for item in items:
        if item.get_closest_marker("node"):
            item.add_marker(pytest.mark.skip(reason=f"not run: {reason}"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gpu_cluster(toolchain: Path) -> AsyncIterator[GpuCluster]:
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:2") as cluster:
        yield cluster
