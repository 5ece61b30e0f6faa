from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from agent.on_cluster import Admin
from explaining.bed import Bed
from harness.controlplane import ControlPlane

ROOT = Path(__file__).parents[2]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole_bed(toolchain: Path) -> AsyncIterator[Bed]:
    async with ControlPlane() as control_plane, Admin(control_plane) as admin:
        await control_plane.kubectl("apply", "--kustomize", ROOT / "crds")
        await control_plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
        bed = Bed(control_plane, admin)
        await bed.prepare_nodes()
        yield bed


@pytest_asyncio.fixture(loop_scope="module")
async def bed(whole_bed: Bed) -> AsyncIterator[Bed]:
    await whole_bed.control_plane.kubectl("apply", "--filename", ROOT / "manifests/base/deviceclasses.yaml")
    yield whole_bed
    await whole_bed.clean()
