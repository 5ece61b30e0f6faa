from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from cluster.tenants.bed import Bed, a_bed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_bed(toolchain: Path) -> AsyncIterator[Bed]:
    async with a_bed() as bed:
        yield bed


@pytest_asyncio.fixture(loop_scope="module")
async def bed(shared_bed: Bed) -> AsyncIterator[Bed]:
    yield shared_bed
    for person in (shared_bed.tenant, shared_bed.other):
        await person.cleans_up()
