"""Eight GPUs whose driver takes its time for each step of MIG: what one is cut into does not hold up the others."""

import asyncio
import time
from pathlib import Path
from typing import Final

from gpusharing import sim
from gpusharing.nvidia.facts import MigPlace
from gpusharing.sim import faults
from nvidia.nodes import opened

STEP: Final = 0.5
STEPS: Final = (
    "nvmlDeviceSetMigMode",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceCreateComputeInstance",
)
PLACES: Final = (MigPlace(19, 0), MigPlace(19, 1))


async def test_gpus_are_cut_at_the_same_time(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB:8")
    async with opened(node) as hardware:
        for step in STEPS:
            node.inject(faults.CallHangs(step, STEP))

        async def cut(gpu: str) -> None:
            await hardware.set_mig_mode(gpu, enabled=True)
            for place in PLACES:
                await hardware.create_mig_instance(gpu, place)

        began = time.monotonic()
        await asyncio.gather(*(cut(gpu.uuid) for gpu in node.gpus()))
        took = time.monotonic() - began
        # One after the other, each GPU would add the time of its five steps.
        one = STEP * (1 + 2 * len(PLACES))
        assert took < 3 * one, took
        found = await hardware.inventory()
        assert [sorted(instance.span.start for instance in gpu.instances) for gpu in found.gpus] == [[0, 1]] * 8
        assert [gpu.unknown for gpu in found.gpus] == [()] * 8
