"""The agent's hardware layer on a simulated node with as much as a server can have, and the simulation itself."""

import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from ctypes import byref
from pathlib import Path
from typing import Any

import pynvml

from bench.figures import Figure, absolute, p50
from gpusharing import sim
from gpusharing.nvidia.facts import MigPlace
from gpusharing.nvidia.hardware import Hardware
from nvidia.nodes import opened
from sim import calls

ROUNDS = 200
GPUS, INSTANCES = 8, 7
ONE_SLICE, IN_THE_MIDDLE = 19, 3

Call = tuple[Callable[..., int], tuple[Any, ...]]


async def measure() -> list[Figure]:
    async with _full_node() as (node, hardware):
        return [
            await _inventory(hardware),
            _calls(await _calls_of_an_inventory(hardware)),
            *await _mig(hardware, node.gpus()[0].uuid),
        ]


@asynccontextmanager
async def _full_node() -> AsyncIterator[tuple[sim.SimNode, Hardware]]:
    with tempfile.TemporaryDirectory(prefix="gpusharing-bench-") as directory:
        node = sim.create(Path(directory) / "node", f"H100-80GB:{GPUS}")
        async with opened(node) as hardware:
            for gpu in node.gpus():
                await hardware.set_mig_mode(gpu.uuid, enabled=True)
                for start in range(INSTANCES):
                    await hardware.create_mig_instance(gpu.uuid, MigPlace(ONE_SLICE, start))
            yield node, hardware


async def _inventory(hardware: Hardware) -> Figure:
    samples = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        found = await hardware.inventory()
        samples.append(time.perf_counter() - began)
    devices = sum(len(gpu.instances) for gpu in found.gpus)
    name = f"inventory of {len(found.gpus)} GPUs with {devices} MIG devices, p50 of {ROUNDS}"
    return absolute(name, p50(samples) * 1e3, "ms", at_most=20)


async def _calls_of_an_inventory(hardware: Hardware) -> dict[str, Call]:
    """One of each. They change nothing, so they can be made again."""
    made: dict[str, Call] = {}
    with _recorded(made):
        await hardware.inventory()
    return made


@contextmanager
def _recorded(made: dict[str, Call]) -> Iterator[None]:
    """For this time nvidia-ml-py takes its functions from here."""
    find = pynvml._nvmlGetFunctionPointer

    def found(name: str) -> Callable[..., int]:
        function = find(name)

        def call(*arguments: Any) -> int:
            made.setdefault(name, (function, arguments))
            code: int = function(*arguments)
            return code

        return call

    pynvml._nvmlGetFunctionPointer = found
    try:
        yield
    finally:
        pynvml._nvmlGetFunctionPointer = find


def _calls(made: dict[str, Call]) -> Figure:
    ctypes_itself = _seconds_of_a_call(pynvml.nvmlLib.nvmlErrorString, (0,))
    seconds = {name: _seconds_of_a_call(*call) - ctypes_itself for name, call in made.items()}
    slowest = max(seconds, key=seconds.__getitem__)
    name = f"slowest of the {len(seconds)} simulated calls that it makes ({slowest}), p50"
    return absolute(name, seconds[slowest] * 1e6, "us", at_most=2)


def _seconds_of_a_call(function: Callable[..., int], arguments: tuple[Any, ...]) -> float:
    samples = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(ROUNDS):
            function(*arguments)
        samples.append((time.perf_counter() - began) / ROUNDS)
    return p50(samples)


async def _mig(hardware: Hardware, gpu: str) -> list[Figure]:
    place = MigPlace(ONE_SLICE, IN_THE_MIDDLE)
    await hardware.destroy_mig_instance(gpu, place)
    ours, simulation = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await hardware.create_mig_instance(gpu, place)
        await hardware.destroy_mig_instance(gpu, place)
        ours.append(time.perf_counter() - began)
        began = time.perf_counter()
        _create_and_destroy(gpu)
        simulation.append(time.perf_counter() - began)
    what = f"MIG instance made and destroyed, p50 of {ROUNDS}"
    return [
        absolute(f"{what}, with all that our layer makes sure of", p50(ours) * 1e3, "ms", at_most=2),
        absolute(f"{what}, the simulation alone", p50(simulation) * 1e3, "ms", at_most=2),
    ]


def _create_and_destroy(uuid: str) -> None:
    gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    placement = pynvml.c_nvmlGpuInstancePlacement_t(IN_THE_MIDDLE, 1)
    gpu_instance = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, ONE_SLICE, byref(placement))
    compute_instance = calls.fill(gpu_instance)
    pynvml.nvmlComputeInstanceDestroy(compute_instance)
    pynvml.nvmlGpuInstanceDestroy(gpu_instance)
