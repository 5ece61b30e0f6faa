from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from agent.on_cluster import Admin
from controller.bed import Operator
from diagnosing.bed import NODES, Bed, gpu_node
from harness.controlplane import ControlPlane
from manifests.monitoring_kinds import add_monitoring_kinds


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bare_bed(toolchain: Path) -> AsyncIterator[Bed]:
    """Nothing is installed, before a test asks for `bed`."""
    async with ControlPlane() as control_plane, Admin(control_plane) as admin:
        yield Bed(control_plane, admin)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed(bare_bed: Bed) -> AsyncIterator[Bed]:
    """All is well: the operator runs beside the cluster, and the tests play its kubelets and agents."""
    bed = bare_bed
    await bed.install()
    await add_monitoring_kinds(bed.control_plane)
    await bed.monitor()
    for name in NODES:
        await bed.add_node(gpu_node(name))
        await bed.publish(name)
        await bed.report(name)
    bed.operator = await Operator.of(bed.control_plane, "--lease-duration", "3")
    async with bed.operator.killed_at_end():
        await bed.all_ready()
        yield bed
