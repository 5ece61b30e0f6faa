from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from harness.controlplane import ControlPlane
from harness.gpu_cluster import MANIFESTS
from manifests.monitoring_kinds import add_monitoring_kinds


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def installed(toolchain: Path) -> AsyncIterator[ControlPlane]:
    """A control plane to which manifests/base was applied, once and in one go, as people do it."""
    # Another version of the API must be no way around.
    async with ControlPlane(runtime_config="resource.k8s.io/v1beta2=true") as control_plane:
        await control_plane.kubectl("apply", "--kustomize", MANIFESTS)
        await control_plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
        yield control_plane


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def monitoring_kinds(installed: ControlPlane) -> None:
    await add_monitoring_kinds(installed)
