"""What people install: the image, by the manifests, on a real kubelet with a network for its pods."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from harness.installed_cluster import InstalledCluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: Path, images: list[Path]) -> AsyncIterator[InstalledCluster]:
    """Nothing is installed yet."""
    async with InstalledCluster(node_names=["node-1"], archives=images) as cluster:
        yield cluster
