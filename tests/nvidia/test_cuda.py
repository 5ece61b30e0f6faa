"""What a CUDA program gets of a GPU, as the selftest asks it."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from gpusharing import sim
from gpusharing.nvidia import cuda
from gpusharing.nvidia.cuda import Cuda, CudaUse
from gpusharing.nvidia.driver_root import DriverRoot
from gpusharing.nvidia.errors import ProgramError, ProgramHungError, ProgramMissingError
from gpusharing.nvidia.facts import MigPlace
from gpusharing.nvidia.hardware import Hardware
from gpusharing.nvidia.mps.daemon import MpsLimits, MpsSetup
from gpusharing.sim import ComputeMode, faults
from harness.mounts import unmount_below
from nvidia.nodes import opened, uuid
from sim.mps_daemons import kill_programs_of

ALL_MIB = 81559 - 551
OUT_OF_MEMORY = "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[sim.SimNode]:
    node = sim.create(tmp_path / "node", "H100-80GB:2")
    yield node
    kill_programs_of(node)
    unmount_below(tmp_path)


@pytest_asyncio.fixture
async def hardware(node: sim.SimNode) -> AsyncIterator[Hardware]:
    async with opened(node) as hardware:
        yield hardware


@pytest.fixture
def programs(node: sim.SimNode) -> Cuda:
    return Cuda(DriverRoot.find(node.directory), dev=node.dev, cgroups=node.sys / "fs/cgroup")


def used(gpu: sim.Gpu) -> int:
    return sum(process.memory for process in gpu.processes)


async def test_a_whole_gpu(node: sim.SimNode, programs: Cuda) -> None:
    use = await programs.use(uuid(node, 1), mib=120)
    assert use == CudaUse(multiprocessors=132, total_mib=ALL_MIB, free_mib=ALL_MIB, taken_mib=150, refusal=None)
    # It has given back all of it.
    assert [used(gpu) for gpu in node.gpus()] == [0, 0]


async def test_no_more_than_is_free(node: sim.SimNode, programs: Cuda) -> None:
    node.start_process(uuid(node), os.getpid(), (ALL_MIB - 130) * 1024**2)
    use = await programs.use(uuid(node), mib=ALL_MIB)
    assert (use.free_mib, use.taken_mib, use.refusal) == (130, 100, OUT_OF_MEMORY)


@pytest.mark.parametrize(("threads", "multiprocessors"), [(100, 132), (50, 66), (10, 14), (1, 2)])
async def test_a_client_of_mps(
    node: sim.SimNode, programs: Cuda, tmp_path: Path, threads: int, multiprocessors: int
) -> None:
    limits = MpsLimits(threads=threads, memory_mib={uuid(node): 170})
    setup = MpsSetup(directory=tmp_path / "mps/gpu-0", gpus=(uuid(node),), limits=limits)
    async with opened(node) as hardware:
        await hardware.start_mps(setup)
    use = await programs.use(uuid(node), mib=1000, mps=setup.directory)
    assert (use.multiprocessors, use.taken_mib, use.refusal) == (multiprocessors, 150, OUT_OF_MEMORY)
    # The limit is the daemon's, not the GPU's.
    assert (await programs.use(uuid(node, 1), mib=1000)).taken_mib == 1000


async def test_a_mig_instance(node: sim.SimNode, programs: Cuda, hardware: Hardware) -> None:
    await hardware.set_mig_mode(uuid(node), enabled=True)
    made = await hardware.create_mig_instance(uuid(node), MigPlace(19, 0))
    assert made.now
    use = await programs.use(str(made.now.uuid), mib=20_000)
    assert (use.multiprocessors, use.total_mib, use.taken_mib) == (16, 9984, 9950)
    with pytest.raises(ProgramError, match=r"cuInit: CUDA_ERROR_NO_DEVICE \(100\)"):
        await programs.use(uuid(node), mib=1)


async def test_a_gpu_that_is_closed_to_programs(node: sim.SimNode, programs: Cuda) -> None:
    node.set_compute_mode(uuid(node), ComputeMode.PROHIBITED)
    with pytest.raises(ProgramError, match="cuDevicePrimaryCtxRetain: CUDA_ERROR_DEVICE_UNAVAILABLE"):
        await programs.use(uuid(node), mib=1)


async def test_a_daemon_that_has_no_server(
    node: sim.SimNode, programs: Cuda, hardware: Hardware, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hardware.start_mps(MpsSetup(directory=tmp_path / "mps/gpu-0", gpus=(uuid(node),)))
    node.inject(faults.MpsServerDoesNotStart())
    monkeypatch.setattr(cuda, "TIMEOUT", 0.5)
    with pytest.raises(ProgramHungError):
        await programs.use(uuid(node), mib=1, mps=tmp_path / "mps/gpu-0")


async def test_a_driver_without_cuda(node: sim.SimNode, programs: Cuda) -> None:
    for file in node.library.parent.glob("libcuda*"):
        file.unlink()
    with pytest.raises(ProgramMissingError, match=r"libcuda\.so\.1 is not below"):
        await programs.use(uuid(node), mib=1)


async def test_a_library_that_is_none(node: sim.SimNode, programs: Cuda) -> None:
    library = (node.library.parent / "libcuda.so.1").resolve()
    library.write_text("not a library\n")
    with pytest.raises(ProgramError, match=r"libcuda\.so\.1: (file too short|invalid ELF header)"):
        await programs.use(uuid(node), mib=1)
