"""Every operation on GPUs is measured, however it ends."""

import inspect
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from agent.metrics.pages import samples
from gpusharing import sim
from gpusharing.agent.metrics.operations import OperationMeter
from gpusharing.nvidia.errors import DriverHungError, NotFoundError
from gpusharing.nvidia.gpu_node import GpuNode
from gpusharing.nvidia.hardware import Hardware
from gpusharing.sim import faults
from nvidia.nodes import SHORT, opened, uuid

PREFIX = "gpusharing_agent_hardware_operation"


@pytest_asyncio.fixture
async def hardware(node: sim.SimNode) -> AsyncIterator[Hardware]:
    async with opened(node, patience=SHORT) as opened_hardware:
        yield opened_hardware


def count(meter: OperationMeter, operation: str) -> float:
    return samples(meter.families)[f'{PREFIX}_duration_seconds_count{{operation="{operation}"}}']


def failures(meter: OperationMeter) -> dict[str, float]:
    return {
        name.partition('operation="')[2].rstrip('"}'): value
        for name, value in samples(meter.families).items()
        if "failures" in name
    }


async def test_answers_pass_and_are_timed(node: sim.SimNode, hardware: Hardware) -> None:
    meter = OperationMeter()
    metered = meter.metered(hardware)
    assert await metered.inventory() == await hardware.inventory()
    for _ in range(2):
        assert await metered.compute_mode(uuid(node)) == "Default"
    change = await metered.set_compute_mode(uuid(node), "ExclusiveProcess")
    assert (change.found, change.now) == ("Default", "ExclusiveProcess")
    assert [count(meter, name) for name in ("inventory", "compute_mode", "set_compute_mode")] == [1, 2, 1]
    assert failures(meter) == {}


async def test_failures(node: sim.SimNode, hardware: Hardware) -> None:
    meter = OperationMeter()
    metered = meter.metered(hardware)
    with pytest.raises(NotFoundError):
        await metered.mig("GPU-nowhere")
    assert metered.hung() is None
    node.inject(faults.CallHangs("nvmlDeviceGetComputeMode", 1.2))
    with pytest.raises(DriverHungError):
        await metered.compute_mode(uuid(node))
    assert isinstance(metered.hung(), DriverHungError)
    assert failures(meter) == {"mig": 1, "compute_mode": 1}
    # Also what did not end well took its time.
    sums = samples(meter.families)
    assert sums[f'{PREFIX}_duration_seconds_sum{{operation="compute_mode"}}'] >= SHORT.question


def test_the_whole_protocol_is_there(hardware: Hardware) -> None:
    metered = OperationMeter().metered(hardware)
    operations = [name for name in dir(GpuNode) if not name.startswith("_")]
    assert "hung" in operations
    for name in operations:
        declared, passed_on = getattr(GpuNode, name), getattr(metered, name)
        assert inspect.iscoroutinefunction(declared) == inspect.iscoroutinefunction(passed_on)
        assert (passed_on == getattr(hardware, name)) == (name == "hung")
