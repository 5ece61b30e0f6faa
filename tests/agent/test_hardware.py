"""What the agent reads of a node: driver, library, tool and kernel."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agent.conftest import RecordEvent
from gpusharing import sim
from gpusharing.agent.hardware import sysfs
from gpusharing.agent.hardware.driver_root import DriverRoot
from gpusharing.agent.hardware.errors import HardwareError, NotSupportedError, ProgramError, ProgramMissingError
from gpusharing.agent.hardware.facts import Change
from gpusharing.agent.hardware.node import Hardware
from gpusharing.agent.hardware.smi import NvidiaSmi
from gpusharing.api.sharing.offers import Interval
from gpusharing.core.devices.gpu import Board
from gpusharing.sim import ComputeMode, Timeslice


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
    uuid = node.gpus()[2].uuid
    assert await hardware.set_compute_mode(uuid, "ExclusiveProcess") == Change("Default", "ExclusiveProcess")
    assert await hardware.set_compute_mode(uuid, "ExclusiveProcess") == Change("ExclusiveProcess", "ExclusiveProcess")
    assert node.gpus()[2].compute_mode is ComputeMode.EXCLUSIVE_PROCESS
    assert await hardware.compute_mode(uuid) == "ExclusiveProcess"
    node.set_compute_mode(uuid, ComputeMode.PROHIBITED)
    assert await hardware.compute_mode(uuid) == "Prohibited"


async def test_time_slice(node: sim.SimNode, hardware: Hardware) -> None:
    uuid = node.gpus()[1].uuid
    for interval, timeslice in zip(Interval, Timeslice, strict=True):
        before = await hardware.time_slice(uuid)
        assert await hardware.set_time_slice(uuid, interval) == Change(before, interval)
        assert [gpu.timeslice for gpu in node.gpus()] == [Timeslice.DEFAULT, timeslice, Timeslice.DEFAULT]
        assert await hardware.time_slice(uuid) is interval
    node.set_timeslice(uuid, None)
    assert await hardware.time_slice(uuid) is None
    with pytest.raises(NotSupportedError, match=f"nvidia-smi compute-policy -i {uuid}"):
        await hardware.set_time_slice(uuid, Interval.SHORT)


async def test_unknown_gpu_is_an_error_not_a_missing_feature(hardware: Hardware) -> None:
    with pytest.raises(HardwareError, match=r"GPU GPU-00000000-.*: nvmlDeviceGetHandleByUUID: Not Found"):
        await hardware.compute_mode("GPU-00000000-0000-0000-0000-000000000000")
    with pytest.raises(HardwareError, match="No devices were found"):
        await hardware.time_slice("GPU-00000000-0000-0000-0000-000000000000")


@pytest.mark.parametrize(
    ("output", "code", "expected"),
    [
        ("GPU 00000000:1B:00.0\n    Timeslice: Medium", 0, Interval.MEDIUM),
        ("GPU 00000000:1B:00.0\n    Timeslice: LONG", 0, Interval.LONG),
        ("Some warning first\nTimeslice:Default", 0, Interval.DEFAULT),
        ("GPU 00000000:1B:00.0\n    Timeslice: Eternal", 0, NotSupportedError),
        ("", 0, NotSupportedError),
        ("Failed to get timeslice policy for GPU 0 : Not Supported", 3, NotSupportedError),
        ("Unable to determine the device handle for GPU0: Unknown Error", 255, ProgramError),
        ("", 134, ProgramError),
    ],
)
async def test_what_nvidia_smi_says(
    node: sim.SimNode, smi_script: RecordEvent, output: str, code: int, expected: Interval | type[HardwareError]
) -> None:
    smi_script(f"cat <<'EOF'\n{output}\nEOF\nexit {code}")
    smi = NvidiaSmi(DriverRoot(node.directory))
    if isinstance(expected, Interval):
        assert await smi.time_slice("GPU-1") is expected
        return
    with pytest.raises(HardwareError) as error:
        await smi.time_slice("GPU-1")
    assert type(error.value) is expected
    assert "GPU-1" in str(error.value)
    assert (output or "no output" if code else "no time slice") in str(error.value)


async def test_nvidia_smi_gets_the_hosts_library(node: sim.SimNode, smi_script: RecordEvent) -> None:
    smi_script('echo "Timeslice: Short"; test "$LD_PRELOAD" = "' + str(node.library) + '"')
    assert await NvidiaSmi(DriverRoot(node.directory)).time_slice("GPU-1") is Interval.SHORT


@pytest.mark.parametrize(
    ("library", "program"),
    [
        ("usr/lib64", "usr/bin"),
        ("usr/lib/x86_64-linux-gnu", "usr/bin"),
        ("usr/lib/aarch64-linux-gnu", "usr/bin"),
        ("lib64", "opt/bin"),
    ],
)
def test_driver_is_found_below_its_root(tmp_path: Path, library: str, program: str) -> None:
    for file in (tmp_path / library / "libnvidia-ml.so.1", tmp_path / program / "nvidia-smi"):
        file.parent.mkdir(parents=True)
        file.touch()
    root = DriverRoot(tmp_path)
    assert root.nvml_library() == tmp_path / library / "libnvidia-ml.so.1"
    assert root.program("nvidia-smi") == tmp_path / program / "nvidia-smi"


def test_missing_driver_says_where_it_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "usr/lib64").mkdir(parents=True)
    # As a package that was removed leaves it.
    (tmp_path / "usr/lib64/libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580")
    root = DriverRoot(tmp_path)
    with pytest.raises(ProgramMissingError, match=rf"libnvidia-ml.* is not below {tmp_path} .*Set --driver-root"):
        root.nvml_library()
    with pytest.raises(ProgramMissingError, match=rf"nvidia-smi is not below {tmp_path} .*Set --driver-root"):
        root.program("nvidia-smi")


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
