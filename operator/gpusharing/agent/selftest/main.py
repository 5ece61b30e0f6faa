"""The selftest: what this node's GPUs are and can do, and with `exercise` whether they do it."""

from pathlib import Path

from gpusharing.agent.selftest.exercise import exercise as exercise_one
from gpusharing.agent.selftest.look import look_at_driver, look_at_gpu, look_at_host
from gpusharing.agent.selftest.report import Report
from gpusharing.nvidia.cdi_specs import CdiSpecs
from gpusharing.nvidia.cuda import Cuda
from gpusharing.nvidia.gpu_node import GpuNode


async def selftest(
    hardware: GpuNode,
    cuda: Cuda,
    *,
    specs: CdiSpecs,
    cgroups: Path,
    mps_home: Path,
    exercise: bool,
    chosen: str | None,
) -> Report:
    report = Report()
    look_at_host(report, cgroups)
    await hardware.open()
    try:
        inventory = await look_at_driver(report, hardware)
        for gpu in inventory.gpus if inventory else ():
            await look_at_gpu(report, hardware, gpu, specs)
        if exercise and inventory:
            await exercise_one(report, hardware, cuda, inventory, chosen, cgroups=cgroups, mps_home=mps_home)
    finally:
        await hardware.close()
    return report
