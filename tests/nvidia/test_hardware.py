"""What the agent reads of a node: driver, library, tool and kernel."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agent.simulated_node import RecordEvent
from gpusharing import sim
from gpusharing.api.sharing.offers import Interval
from gpusharing.core.devices.gpu import Board
from gpusharing.nvidia import sysfs
from gpusharing.nvidia.driver_root import DriverRoot
from gpusharing.nvidia.errors import HardwareError, NotSupportedError, ProgramError
from gpusharing.nvidia.facts import Change
from gpusharing.nvidia.hardware import Hardware
from gpusharing.nvidia.smi import NvidiaSmi
from gpusharing.sim import ComputeMode, Quirk, Timeslice, faults, store
from nvidia.nodes import calls_of, opened, uuid


async def test_boards(node: sim.SimNode, hardware: Hardware) -> None:
    first, second, l4 = node.gpus()
    boards = (await hardware.inventory()).boards
    assert [board.mig is not None for board in boards] == [True, True, False]
    assert [replace(board, mig=None) for board in boards] == [
        Board(
            uuid=first.uuid,
            minor=0,
            product_name="NVIDIA H100 80GB HBM3",
            brand="Nvidia",
            architecture="Hopper",
            memory_mib=81559,
            reserved_mib=551,
            compute_capability=(9, 0),
            driver_version="580.173.02",
            cuda_driver_version=(13, 0),
            pci_bus_id="0000:1b:00.0",
            pcie_root="pci0000:1a",
            numa_node=0,
            addressing_mode="HMM",
        ),
        Board(
            uuid=second.uuid,
            minor=1,
            product_name="NVIDIA H100 80GB HBM3",
            brand="Nvidia",
            architecture="Hopper",
            memory_mib=81559,
            reserved_mib=551,
            compute_capability=(9, 0),
            driver_version="580.173.02",
            cuda_driver_version=(13, 0),
            pci_bus_id="0000:22:00.0",
            pcie_root="pci0000:21",
            numa_node=0,
            addressing_mode="HMM",
        ),
        Board(
            uuid=l4.uuid,
            minor=2,
            product_name="NVIDIA L4",
            brand="Nvidia",
            architecture="Ada Lovelace",
            memory_mib=23034,
            reserved_mib=486,
            compute_capability=(8, 9),
            driver_version="580.173.02",
            cuda_driver_version=(13, 0),
            pci_bus_id="0000:29:00.0",
            pcie_root="pci0000:28",
            numa_node=1,
            addressing_mode="HMM",
        ),
    ]


async def test_compute_mode(node: sim.SimNode, hardware: Hardware) -> None:
    gpu = uuid(node, 2)
    assert await hardware.set_compute_mode(gpu, "ExclusiveProcess") == Change("Default", "ExclusiveProcess")
    assert await hardware.set_compute_mode(gpu, "ExclusiveProcess") == Change("ExclusiveProcess", "ExclusiveProcess")
    assert node.gpus()[2].compute_mode is ComputeMode.EXCLUSIVE_PROCESS
    assert await hardware.compute_mode(gpu) == "ExclusiveProcess"
    node.set_compute_mode(gpu, ComputeMode.PROHIBITED)
    assert await hardware.compute_mode(gpu) == "Prohibited"


async def test_time_slice(node: sim.SimNode, hardware: Hardware) -> None:
    gpu = uuid(node, 1)
    for interval, timeslice in zip(Interval, Timeslice, strict=True):
        await hardware.set_time_slice(gpu, interval)
        assert [each.timeslice for each in node.gpus()] == [Timeslice.DEFAULT, timeslice, Timeslice.DEFAULT]
        assert await hardware.time_slice(gpu) is interval
    node.set_timeslice(gpu, None)
    assert await hardware.time_slice(gpu) is None
    with pytest.raises(NotSupportedError, match=f"nvidia-smi compute-policy -i {gpu}"):
        await hardware.set_time_slice(gpu, Interval.SHORT)


async def test_unknown_gpu_is_an_error_not_a_missing_feature(hardware: Hardware) -> None:
    with pytest.raises(HardwareError, match=r"GPU GPU-00000000-.*: nvmlDeviceGetHandleByUUID: Not Found"):
        await hardware.compute_mode("GPU-00000000-0000-0000-0000-000000000000")
    with pytest.raises(HardwareError, match="No devices were found"):
        await hardware.set_time_slice("GPU-00000000-0000-0000-0000-000000000000", Interval.SHORT)


@pytest.mark.parametrize(
    ("output", "code", "expected"),
    [
        ("GPU 00000000:1B:00.0\n    Timeslice: Medium", 0, Interval.MEDIUM),
        ("GPU 00000000:1B:00.0\n    Timeslice: LONG", 0, Interval.LONG),
        ("Some warning first\nTimeslice:Default", 0, Interval.DEFAULT),
        ("GPU  0: Timeslice : Short", 0, Interval.SHORT),
        ("| GPU     Name        Value     |\n|=====|\n|   0     Timeslice   Medium    |", 0, Interval.MEDIUM),
        ("| GPU | Policy | Value |\n|   0 | Time-slice | Default |", 0, Interval.DEFAULT),
        ("GPU 0\n  Timeslice: Long\nGPU 1\n  Timeslice: Long", 0, Interval.LONG),
        # What is not understood is nothing.
        ("GPU 0\n  Timeslice: Long\nGPU 1\n  Timeslice: Short", 0, None),
        ("GPU 00000000:1B:00.0\n    Timeslice: Eternal", 0, None),
        ("GPU 00000000:1B:00.0\n    Timeslice: 2", 0, None),
        ("Set timeslice config for a GPU: 0=DEFAULT, 1=SHORT, 2=MEDIUM, 3=LONG", 0, None),
        ("GPU 00000000:1B:00.0\n    Timeslice: Longer than you think", 0, None),
        ("", 0, None),
        ("Failed to get timeslice policy for GPU 0 : Not Supported", 3, None),
        ("Unable to determine the device handle for GPU0: Unknown Error", 255, None),
        ("Timeslice: Long", 134, None),
    ],
)
async def test_time_slice_as_nvidia_smi_lists_it(
    node: sim.SimNode, smi_script: RecordEvent, output: str, code: int, expected: Interval | None
) -> None:
    smi_script(f"cat <<'EOF'\n{output}\nEOF\nexit {code}")
    assert await NvidiaSmi(DriverRoot(node.directory)).time_slice("GPU-1") is expected


@pytest.mark.parametrize(
    ("output", "code", "expected"),
    [
        ("Failed to set timeslice policy with value Long for GPU 0 : Not Supported", 3, NotSupportedError),
        ("Unable to determine the device handle for GPU0: Unknown Error", 255, ProgramError),
        ("", 134, ProgramError),
    ],
)
async def test_time_slice_that_nvidia_smi_does_not_set(
    node: sim.SimNode, smi_script: RecordEvent, output: str, code: int, expected: type[HardwareError]
) -> None:
    smi_script(f"cat <<'EOF'\n{output}\nEOF\nexit {code}")
    with pytest.raises(HardwareError) as error:
        await NvidiaSmi(DriverRoot(node.directory)).set_time_slice("GPU-1", Interval.LONG)
    assert type(error.value) is expected
    assert "GPU-1" in str(error.value)
    assert (output or "no output") in str(error.value)


async def test_time_slice_is_set_by_one_run_of_one_program(
    node: sim.SimNode, hardware: Hardware, smi_script: RecordEvent, tmp_path: Path
) -> None:
    """Each costs as much as all the rest of a claim."""
    smi_script(f'echo "$*" >> {tmp_path}/runs; exec "$REAL" "$@"')
    await hardware.set_time_slice(uuid(node), Interval.LONG)
    assert (tmp_path / "runs").read_text() == f"compute-policy -i {uuid(node)} --set-timeslice 3\n"


async def test_nvidia_smi_gets_the_hosts_library(node: sim.SimNode, smi_script: RecordEvent) -> None:
    smi_script('echo "Timeslice: Short"; test "$LD_PRELOAD" -ef "' + str(node.library) + '"')
    assert await NvidiaSmi(DriverRoot(node.directory)).time_slice("GPU-1") is Interval.SHORT


@pytest.mark.parametrize(
    ("nvml", "kernel"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0000:1B:00.0", "0000:1b:00.0"),
        ("0001ABCD:FF:1F.7", "abcd:ff:1f.7"),
    ],
)
def test_bus_id_as_the_kernel_writes_it(nvml: str, kernel: str) -> None:
    assert sysfs.normalized_bus_id(nvml) == kernel


@pytest.mark.parametrize(("written", "expected"), [("1\n", 1), ("0\n", 0), ("-1\n", None), ("", None), ("?", None)])
def test_numa_node(tmp_path: Path, written: str, expected: int | None) -> None:
    device = tmp_path / "bus/pci/devices/0000:1b:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text(written)
    assert sysfs.numa_node(tmp_path, "0000:1b:00.0") == expected


def test_device_that_the_kernel_does_not_show(node: sim.SimNode, tmp_path: Path) -> None:
    shutil.copytree(node.sys, tmp_path / "sys", symlinks=True)
    assert sysfs.pcie_root(tmp_path / "sys", "0000:1b:00.0") == "pci0000:1a"
    assert sysfs.pcie_root(tmp_path / "sys", "0000:ff:00.0") is None
    assert sysfs.numa_node(tmp_path / "sys", "0000:ff:00.0") is None


def test_device_behind_no_root_port(tmp_path: Path) -> None:
    """As in some virtual machines."""
    device = tmp_path / "devices/vmbus/0000:1b:00.0"
    device.mkdir(parents=True)
    links = tmp_path / "bus/pci/devices"
    links.mkdir(parents=True)
    (links / "0000:1b:00.0").symlink_to(device)
    assert sysfs.pcie_root(tmp_path, "0000:1b:00.0") is None


async def test_memory_that_the_driver_does_not_report(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB", quirks=Quirk.MEMORY_INFO_UNSUPPORTED)
    async with opened(node) as hardware:
        inventory = await hardware.inventory()
    assert inventory.broken == ()
    (board,) = inventory.boards
    assert (board.memory_mib, board.usable_mib) == (0, 0)


async def test_reserved_memory_is_that_of_the_first_look(node: sim.SimNode, hardware: Hardware) -> None:
    """What is published must not tremble with it."""
    before = (await hardware.inventory()).boards[0]
    assert before.usable_mib == before.memory_mib - 551
    with store.locked(node.state) as state:
        state.gpus[0].memory_reserved += 3 << 20
    try:
        assert (await hardware.inventory()).boards[0] == before
    finally:
        with store.locked(node.state) as state:
            state.gpus[0].memory_reserved -= 3 << 20


async def test_virtual_gpus_are_never_cut(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB", quirks=Quirk.VGPU_GUEST)
    async with opened(node) as hardware:
        (gpu,) = (await hardware.inventory()).gpus
        assert (gpu.board.mig, gpu.mig_mode, gpu.unknown) == (None, None, ())
        assert await hardware.mig(gpu.board.uuid) is None
        with pytest.raises(NotSupportedError, match="only the host of the virtual machine can change"):
            await hardware.set_mig_mode(gpu.board.uuid, enabled=True)


async def test_what_stays_unknown_renews_no_session_again_and_again(node: sim.SimNode, hardware: Hardware) -> None:
    node.inject(faults.CallFails("nvmlDeviceGetRemappedRows", 999, gpu=uuid(node)))
    try:
        with calls_of(hardware) as calls:
            for _ in range(5):
                assert (await hardware.inventory()).gpus[0].unknown
        # To find out whether the session is to blame.
        assert calls.count("nvmlShutdown") == 1
    finally:
        node.clear()
