"""Real kubelet and containerd, our own programs, simulated GPUs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from harness.gpu_cluster import GpuCluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gpu_cluster(toolchain: Path) -> AsyncIterator[GpuCluster]:
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:2") as cluster:
        yield cluster
