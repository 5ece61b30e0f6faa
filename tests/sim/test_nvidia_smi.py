from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.sim import cuda
from gpusharing.sim.faults import CallFails

Smi = Callable[..., "subprocess.CompletedProcess[str]"]

NOBODY = 2**22 + 1
"""No process of this machine: Linux counts to 2**22."""


def test_list(node: sim.SimNode, smi: Smi) -> None:
    first, second, third = (gpu.uuid for gpu in node.gpus())
    result = smi("-L")
    assert result.returncode == 0
    assert result.stdout == (
        f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {first})\n"
        f"GPU 1: NVIDIA H100 80GB HBM3 (UUID: {second})\n"
        f"GPU 2: NVIDIA L4 (UUID: {third})\n"
    )


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("id_of", [lambda gpu: gpu.uuid, lambda gpu: str(gpu.index), lambda _: "0000:22:00.0"])
@pytest.mark.parametrize(
    ("argument", "mode"),
    [
        ("EXCLUSIVE_PROCESS", sim.ComputeMode.EXCLUSIVE_PROCESS),
        ("3", sim.ComputeMode.EXCLUSIVE_PROCESS),
        ("PROHIBITED", sim.ComputeMode.PROHIBITED),
        ("2", sim.ComputeMode.PROHIBITED),
    ],
)
def test_set_compute_mode(
    node: sim.SimNode, smi: Smi, id_of: Callable[[sim.Gpu], str], argument: str, mode: sim.ComputeMode
) -> None:
    result = smi("-i", id_of(node.gpus()[1]), "-c", argument)
    assert result.returncode == 0
    assert result.stdout == f"Set compute mode to {mode.name} for GPU 00000000:22:00.0.\nAll done.\n"
    assert [gpu.compute_mode for gpu in node.gpus()] == [sim.ComputeMode.DEFAULT, mode, sim.ComputeMode.DEFAULT]


@pytest.mark.usefixtures("root")
def test_set_compute_mode_again_and_back(node: sim.SimNode, smi: Smi) -> None:
    node.set_compute_mode(node.gpus()[0].uuid, sim.ComputeMode.EXCLUSIVE_PROCESS)
    again = smi("-i", "0", "-c", "EXCLUSIVE_PROCESS")
    assert again.returncode == 0
    assert again.stdout.startswith("Compute mode is already set to EXCLUSIVE_PROCESS for GPU 00000000:1B:00.0.\n")
    assert smi("-c", "DEFAULT").returncode == 0
    assert {gpu.compute_mode for gpu in node.gpus()} == {sim.ComputeMode.DEFAULT}


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("argument", "timeslice"),
    [("0", "DEFAULT"), ("1", "SHORT"), ("2", "MEDIUM"), ("3", "LONG"), ("MEDIUM", "MEDIUM"), ("Long", "LONG")],
)
def test_set_timeslice(node: sim.SimNode, smi: Smi, argument: str, timeslice: str) -> None:
    result = smi("compute-policy", "-i", node.gpus()[2].uuid, "--set-timeslice", argument)
    assert result.returncode == 0
    assert result.stdout == f"Set timeslice policy with value {timeslice.capitalize()} for GPU 2.\n"
    assert [gpu.timeslice for gpu in node.gpus()] == [
        sim.Timeslice.DEFAULT,
        sim.Timeslice.DEFAULT,
        sim.Timeslice[timeslice],
    ]


def test_list_timeslices(node: sim.SimNode, smi: Smi) -> None:
    node.set_timeslice(node.gpus()[0].uuid, sim.Timeslice.LONG)
    assert smi("compute-policy", "-i", "0", "-l").stdout == "GPU 00000000:1B:00.0\n    Timeslice: Long\n"
    everything = smi("compute-policy", "-l")
    assert everything.returncode == 0
    assert [line.strip() for line in everything.stdout.splitlines()[1::2]] == [
        "Timeslice: Long",
        "Timeslice: Default",
        "Timeslice: Default",
    ]


@pytest.mark.usefixtures("root")
def test_unsupported_timeslice(node: sim.SimNode, smi: Smi) -> None:
    gpu = node.gpus()[0]
    node.set_timeslice(gpu.uuid, None)
    result = smi("compute-policy", "-i", gpu.uuid, "--set-timeslice", "0")
    assert result.returncode == 3
    assert result.stdout == (
        "Failed to set timeslice policy with value Default for GPU 0 : Not Supported\n"
        "Failed to set timeslice for requested devices : Not Supported\n"
    )
    assert node.gpus()[0].timeslice is None
    listing = smi("compute-policy", "-i", gpu.uuid, "-l")
    assert listing.returncode == 3
    assert listing.stdout == "Failed to get timeslice policy for GPU 0 : Not Supported\n"


@pytest.mark.parametrize("id", ["3", "GPU-00000000-0000-0000-0000-000000000000", "0000:ff:00.0", "nonsense"])
@pytest.mark.parametrize("command", [("-c", "0"), ("compute-policy", "--set-timeslice", "1"), ("compute-policy", "-l")])
def test_unknown_gpu(smi: Smi, command: tuple[str, ...], id: str) -> None:  # noqa: A002
    result = smi(*command, "-i", id)
    assert (result.returncode, result.stdout) == (6, "No devices were found\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("-i", "0"),
        ("-i", "0", "-c", "1"),
        ("-i", "0", "-c", "SHARED"),
        ("compute-policy",),
        ("compute-policy", "--set-timeslice", "4"),
        ("compute-policy", "--set-timeslice", "11"),
        ("compute-policy", "--reset"),
        ("--query-gpu=fan.speed", "--format=csv"),
        ("--query-gpu=index",),
        ("--query-gpu=index", "--format=xml"),
        ("--unknown",),
    ],
)
def test_invalid_arguments(node: sim.SimNode, smi: Smi, arguments: tuple[str, ...]) -> None:
    before = node.gpus()
    result = smi(*arguments)
    assert result.returncode == 2
    assert result.stdout + result.stderr
    assert node.gpus() == before


def test_query(node: sim.SimNode, smi: Smi) -> None:
    fields = "index,uuid,name,memory.total,compute_mode,pci.bus_id,driver_version"
    node.set_compute_mode(node.gpus()[1].uuid, sim.ComputeMode.EXCLUSIVE_PROCESS)
    first, second, third = (gpu.uuid for gpu in node.gpus())
    result = smi(f"--query-gpu={fields}", "--format=csv")
    assert result.returncode == 0
    assert result.stdout.splitlines() == [
        "index, uuid, name, memory.total [MiB], compute_mode, pci.bus_id, driver_version",
        f"0, {first}, NVIDIA H100 80GB HBM3, 81559 MiB, Default, 00000000:1B:00.0, 580.173.02",
        f"1, {second}, NVIDIA H100 80GB HBM3, 81559 MiB, Exclusive_Process, 00000000:22:00.0, 580.173.02",
        f"2, {third}, NVIDIA L4, 23034 MiB, Default, 00000000:29:00.0, 580.173.02",
    ]


def test_query_for_machines(smi: Smi) -> None:
    result = smi("--query-gpu=memory.total,index", "--format=csv,noheader,nounits", "-i", "2")
    assert result.stdout == "23034, 2\n"


def test_query_of_memory(node: sim.SimNode, smi: Smi) -> None:
    """As the second version of NVML's call has it: what the driver keeps for itself is not used."""
    node.start_process(node.gpus()[2].uuid, 4711, 512 << 20)
    fields = "memory.total,memory.reserved,memory.used,memory.free"
    result = smi(f"--query-gpu={fields}", "--format=csv,noheader", "-i", "2")
    assert result.stdout == "23034 MiB, 486 MiB, 512 MiB, 22036 MiB\n"


def test_query_of_what_cannot_be_known(node: sim.SimNode, smi: Smi) -> None:
    node.inject(CallFails("nvmlDeviceGetComputeMode", 999))
    node.inject(CallFails("nvmlDeviceGetSerial", 3))
    result = smi("--query-gpu=count,index,compute_mode,serial,compute_cap", "--format=csv,noheader", "-i", "2")
    assert (result.returncode, result.stdout) == (0, "3, 2, [Unknown Error], [N/A], 8.9\n")


def test_several_gpus_by_their_names(node: sim.SimNode, smi: Smi) -> None:
    names = f"{node.gpus()[2].uuid},0,0000:22:00.0"
    result = smi("--query-gpu=index", "--format=csv,noheader", "-i", names)
    assert result.stdout == "2\n0\n1\n"
    assert smi("-L", "-i", "0,7").returncode == 6


def test_query_of_processes(node: sim.SimNode, smi: Smi) -> None:
    first, second, _ = (gpu.uuid for gpu in node.gpus())
    with cuda.running(node, cuda.Options(gpu="1", memory="1G")) as process:
        node.start_process(first, NOBODY, 512 << 20, sim.ProcessKind.MPS_CLIENT)
        node.start_process(first, NOBODY + 1, 256 << 20, sim.ProcessKind.GRAPHICS)
        result = smi("--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv")
    assert result.stdout.splitlines() == [
        "gpu_uuid, pid, process_name, used_memory [MiB]",
        f"{first}, {NOBODY}, [Not Found], 512 MiB",
        f"{second}, {process.pid}, {node.directory}/bin/cuda-process, 1024 MiB",
    ]
    result = smi("--query-compute-apps=pid", "--format=csv,noheader")
    assert result.stdout == f"{NOBODY}\n"
    assert smi("--query-compute-apps=index", "--format=csv").returncode == 2


def test_usage(smi: Smi) -> None:
    for arguments in (("-h",), ("--help",)):
        result = smi(*arguments)
        assert result.returncode == 0
        assert "--query-gpu" in result.stdout
    assert "-lgip" in smi("mig", "-h").stdout


def test_table(node: sim.SimNode, smi: Smi) -> None:
    gpu = node.gpus()[1]
    node.start_process(gpu.uuid, 4711, 512 * 1024 * 1024, sim.ProcessKind.MPS_CLIENT)
    node.set_timeslice(gpu.uuid, sim.Timeslice.SHORT)
    result = smi()
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert "580.173.02" in lines[0]
    assert (
        " ".join(lines[4].split())
        == "1 NVIDIA H100 80GB HBM3 00000000:22:00.0 1063MiB / 81559MiB Default Disabled Short"
    )
    assert lines[-1].split() == ["1", "4711", "M+C", "512MiB"]


@pytest.fixture
def public_node() -> Iterator[sim.SimNode]:
    """In a directory that other users reach; pytest's own are private."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    yield sim.create(directory / "node", "L4")
    shutil.rmtree(directory)


@pytest.mark.usefixtures("root")
def test_settings_are_for_root(public_node: sim.SimNode) -> None:
    def as_nobody(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(public_node.nvidia_smi), *arguments]
        return subprocess.run(command, user=65534, capture_output=True, text=True, check=False)

    assert as_nobody("-L").returncode == 0
    mode = as_nobody("-i", "0", "-c", "EXCLUSIVE_PROCESS")
    assert mode.returncode == 4
    assert mode.stdout == (
        "Unable to set the compute mode for GPU 00000000:1B:00.0: Insufficient Permissions\n"
        "Terminating early due to previous errors.\n"
    )
    timeslice = as_nobody("compute-policy", "-i", "0", "--set-timeslice", "LONG")
    assert timeslice.returncode == 4
    assert "value Long for GPU 0 : Insufficient Permissions\n" in timeslice.stdout
    (gpu,) = public_node.gpus()
    assert (gpu.compute_mode, gpu.timeslice) == (sim.ComputeMode.DEFAULT, sim.Timeslice.DEFAULT)


def test_environment_decides_which_node(node: sim.SimNode, tmp_path: Path) -> None:
    other = sim.create(tmp_path / "other", "A30")
    result = subprocess.run(["nvidia-smi", "-L"], env=other.environment(), capture_output=True, text=True, check=True)
    assert result.stdout == f"GPU 0: NVIDIA A30 (UUID: {other.gpus()[0].uuid})\n"
    # By its path it belongs to its node, whichever library comes first in the search path.
    search_path = {"LD_LIBRARY_PATH": str(node.library.parent)}
    result = subprocess.run([other.nvidia_smi, "-L"], env=search_path, capture_output=True, text=True, check=True)
    assert "A30" in result.stdout
