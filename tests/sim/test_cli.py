"""`gpusharing sim`, as a person calls it."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.sim import cli, faults
from gpusharing.sim.cli import fault_arguments
from gpusharing.sim.faults import CallFails, CallHangs, CallLies
from sim.conftest import Smi
from sim.mps_daemons import MpsDirectory, started

GIB = 1 << 30

Cli = Callable[..., "subprocess.CompletedProcess[str]"]
Ok = Callable[..., str]


@pytest.fixture
def gpusharing(tmp_path: Path) -> Cli:
    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gpusharing", "sim", *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)

    return run


@pytest.fixture
def ok(gpusharing: Cli) -> Ok:
    """The output of what succeeds."""

    def run(*arguments: str | Path) -> str:
        result = gpusharing(*arguments)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    return run


def test_create(tmp_path: Path, ok: Ok) -> None:
    assert ok("create", "new", "--gpus", "A100-40GB:2,L4", "--driver", "550", "--seed", "x") == (
        f"created 3 simulated GPUs; to use them:\n  . {tmp_path / 'new/env'}\n"
    )
    node = sim.SimNode.open(tmp_path / "new")
    assert [gpu.name for gpu in node.gpus()] == ["NVIDIA A100-SXM4-40GB"] * 2 + ["NVIDIA L4"]
    assert node.driver_version == "550.163.01"
    again = sim.create(tmp_path / "again", "A100-40GB:2,L4", driver="550", seed="x")
    assert [gpu.uuid for gpu in again.gpus()] == [gpu.uuid for gpu in node.gpus()]


@pytest.mark.usefixtures("root")
def test_show(tmp_path: Path, ok: Ok) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB,A100-40GB,L4")
    hopper, ampere, l4 = (gpu.uuid for gpu in node.gpus())
    subprocess.run([node.nvidia_smi, "-i", "0", "-mig", "1"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([node.nvidia_smi, "mig", "-cgi", "9:4", "-C"], check=True, stdout=subprocess.DEVNULL)
    node.inject(faults.LoneGpuInstance(hopper, "1g.10gb", 0))
    (device,) = (each for instance in node.gpus()[0].gpu_instances for each in instance.compute_instances)
    node.start_process(device.uuid, 4711, GIB)
    node.start_process(ampere, 4712, 2 * GIB, sim.ProcessKind.MPS_CLIENT)
    node.set_compute_mode(ampere, sim.ComputeMode.EXCLUSIVE_PROCESS)
    node.set_timeslice(ampere, sim.Timeslice.LONG)
    node.set_timeslice(l4, None)
    node.inject(faults.MigModeStuck(ampere))
    subprocess.run([node.nvidia_smi, "-i", "1", "-mig", "1"], check=True, stdout=subprocess.DEVNULL)
    assert ok("show", node.directory).splitlines() == [
        f"driver 580.173.02, boot {node.boot_id}",
        f"GPU 0 {hopper} NVIDIA H100 80GB HBM3 81559 MiB",
        "  minor 0, compute mode DEFAULT, time slice DEFAULT",
        "  MIG mode on",
        "  GPU instance 2: 3g.40gb at 4",
        f"    MIG device 0: 3g.40gb, compute instance 0, {device.uuid}",
        "  GPU instance 7: 1g.10gb at 0",
        "  process 4711 COMPUTE 1024 MiB in GPU instance 2, compute instance 0",
        f"GPU 1 {ampere} NVIDIA A100-SXM4-40GB 40960 MiB",
        "  minor 1, compute mode EXCLUSIVE_PROCESS, time slice LONG",
        "  MIG mode off, on after a reset",
        "  process 4712 MPS_CLIENT 2048 MiB",
        f"GPU 2 {l4} NVIDIA L4 23034 MiB",
        "  minor 2, compute mode DEFAULT, time slice not supported",
        "  MIG mode not supported",
        f"fault: mig-mode-stuck --gpu {ampere}",
    ]


class TestRun:
    def test_process(self, node: sim.SimNode) -> None:
        command = [sys.executable, "-m", "gpusharing", "sim", "run", str(node.directory)]
        with started([*command, "--gpu", "2", "--memory", "4G"], dict(os.environ)) as process:
            assert process.stdout is not None
            lease = json.loads(process.stdout.readline())
            assert (lease["pid"], lease["device"]) == (process.pid, node.gpus()[2].uuid)
            assert [each.memory for each in node.gpus()[2].processes] == [4 * GIB]
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        assert node.gpus()[2].processes == ()

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (("--memory", "40G", "--gpu", "2"), 1, "CUDA error 2: CUDA_ERROR_OUT_OF_MEMORY\n"),
            (("--gpu", "7"), 1, "CUDA error 100: CUDA_ERROR_NO_DEVICE\n"),
            (("--seconds", "0.1"), 0, ""),
            (("--cgroup", "/missing"), 1, "CUDA error 999: CUDA_ERROR_UNKNOWN\n"),
        ],
    )
    def test_outcome(
        self, node: sim.SimNode, gpusharing: Cli, arguments: tuple[str, ...], code: int, message: str
    ) -> None:
        result = gpusharing("run", node.directory, *arguments)
        assert (result.returncode, result.stderr) == (code, message)

    def test_all_options(self, daemon: MpsDirectory, gpusharing: Cli, tmp_path: Path) -> None:
        heartbeat = tmp_path / "heartbeat"
        result = gpusharing(
            "run",
            daemon.node.directory,
            *("--gpu", "0", "--memory", "1G", "--mps-pipe", daemon.pipe, "--cgroup", tmp_path),
            *("--dev", daemon.node.dev, "--heartbeat", heartbeat, "--seconds", "0.1"),
        )
        assert (result.returncode, result.stderr) == (0, "")
        assert json.loads(result.stdout)["mps_server"] is not None
        assert heartbeat.exists()


class TestFaults:
    @pytest.fixture
    def arguments(self, node: sim.SimNode) -> dict[str, tuple[list[str], faults.Fault]]:
        """For each fault what is typed, and what it is."""
        first = node.gpus()[0].uuid
        of_gpu: dict[str, Callable[[str], faults.Fault]] = {
            "gpu-lost": faults.GpuLost,
            "row-remap-pending": faults.RowRemapPending,
            "reset-needed": faults.ResetNeeded,
            "held-open": faults.HeldOpen,
            "cannot-reset": faults.CannotReset,
            "mig-mode-stuck": faults.MigModeStuck,
            "minors-swap": faults.MinorsSwap,
        }
        call = ["--function", "nvmlDeviceGetName"]
        return {
            "call-fails": ([*call, "--code", "19", "--gpu", first], CallFails("nvmlDeviceGetName", 19, gpu=first)),
            "call-hangs": ([*call, "--seconds", "0.5"], CallHangs("nvmlDeviceGetName", seconds=0.5)),
            "call-lies": ([*call, "--times", "2", "--after", "1"], CallLies("nvmlDeviceGetName", times=2, after=1)),
            **{name: (["--gpu", "0"], fault(first)) for name, fault in of_gpu.items()},
            "mps-does-not-start": ([], faults.MpsDoesNotStart()),
            "mps-hangs": ([], faults.MpsHangs()),
            "mps-server-does-not-start": ([], faults.MpsServerDoesNotStart()),
            "mps-limits-not-applied": ([], faults.MpsLimitsNotApplied()),
            "smi-missing": ([], faults.SmiMissing()),
        }

    def test_begin_and_end(
        self,
        node: sim.SimNode,
        arguments: dict[str, tuple[list[str], faults.Fault]],
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """What `show` says of a fault ends it. In this process, for speed; one for each is in docs/simulation.md."""

        def run(command: str, *options: str) -> list[str]:
            parsed = _parser().parse_args(["sim", command, str(node.directory), *options])
            assert parsed.run(parsed) == 0
            return capsys.readouterr().out.splitlines()

        for name, (options, fault) in arguments.items():
            run("inject", name, *options)
            assert node.faults() == [fault]
            (shown,) = (line for line in run("show") if line.startswith("fault: "))
            run("clear", *shown.split()[1:])
            assert node.faults() == []
        assert set(faults.FAULTS) - set(arguments) == {"xid", "lone-gpu-instance", "mps-killed"}

    def test_all_end(self, node: sim.SimNode, ok: Ok) -> None:
        node.inject(faults.GpuLost(node.gpus()[1].uuid))
        node.inject(faults.RowRemapPending(node.gpus()[0].uuid, failed=True))
        assert ok("show", node.directory).splitlines()[-2:] == [
            f"fault: row-remap-pending --gpu {node.gpus()[0].uuid} --failed",
            f"fault: gpu-lost --gpu {node.gpus()[1].uuid}",
        ]
        ok("clear", node.directory)
        assert node.faults() == []

    @pytest.mark.usefixtures("root")
    def test_momentary(self, node: sim.SimNode, ok: Ok, smi: Smi) -> None:
        smi("-i", "1", "-mig", "1")
        ok("inject", node.directory, "lone-gpu-instance", "--gpu", "1", "--profile", "3g.40gb", "--start", "4")
        assert [each.start for each in node.gpus()[1].gpu_instances] == [4]
        ok("inject", node.directory, "xid", "--gpu", "1", "--xid", "94", "--gpu-instance", "2")

    def test_killed_daemon(self, daemon: MpsDirectory, gpusharing: Cli, ok: Ok) -> None:
        node = daemon.node
        (running,) = node.mps_daemons()
        assert running.pipe == daemon.pipe
        assert ok("show", node.directory).splitlines()[-1] == (
            f"MPS daemon {running.pid} with the pipe directory {daemon.pipe}"
        )
        ok("inject", node.directory, "mps-killed", "--pipe", daemon.pipe)
        assert not daemon.answers()
        assert node.mps_daemons() == []
        again = gpusharing("inject", node.directory, "mps-killed", "--pipe", daemon.pipe)
        assert (again.returncode, again.stderr) == (
            1,
            f"error: this node has no MPS control daemon with the pipe directory {daemon.pipe}\n",
        )

    def test_every_option_is_explained(self) -> None:
        fields = {field.name for fault in faults.FAULTS.values() for field in dataclasses.fields(fault)}
        assert fields == set(fault_arguments.HELP)


@pytest.mark.usefixtures("root")
def test_lifecycle(node: sim.SimNode, ok: Ok, smi: Smi) -> None:
    smi("-i", "0", "-mig", "1")
    smi("mig", "-cgi", "9")
    ok("reset", node.directory, "0")
    assert node.gpus()[0].gpu_instances == ()
    boot = node.boot_id
    ok("reboot", node.directory)
    assert node.boot_id != boot
    assert node.gpus()[0].mig_mode == sim.MigMode(current=False, pending=False)
    ok("unload-driver", node.directory)
    assert ok("show", node.directory).startswith("driver 580.173.02, not loaded, boot ")
    ok("load-driver", node.directory)
    assert smi("-L").returncode == 0
    ok("reload-driver", node.directory, "--driver", "615")
    assert node.driver_version == "615.71.09"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "new", "--gpus", "V100"), "unknown GPU model 'V100': known are A30, "),
        (("create", "new", "--gpus", "L4", "--driver", "1"), "unknown driver '1': known are versions of 535, "),
        (("create", "node", "--gpus", "L4"), "node is not empty"),
        (("create", "/proc/new", "--gpus", "L4"), ""),
        (("show", "missing"), "is not a simulated GPU node: it has no file 'state'"),
        (("reset", "node", "3"), "this node has no GPU 3: its GPUs are 0 to 2; `gpusharing sim show` lists them"),
        (("inject", "node", "gpu-lost", "--gpu", "GPU-x"), "this node has no GPU GPU-x"),
        (("inject", "node", "mps-killed", "--pipe", "/missing"), "no MPS control daemon with the pipe directory"),
        (
            ("inject", "node", "lone-gpu-instance", "--gpu", "2", "--profile", "1g.10gb", "--start", "0"),
            "has no MIG profile '1g.10gb'",
        ),
        (("reload-driver", "node", "--driver", "nonsense"), "unknown driver 'nonsense'"),
    ],
)
@pytest.mark.usefixtures("node")
def test_errors(gpusharing: Cli, arguments: tuple[str, ...], message: str) -> None:
    """One line."""
    result = gpusharing(*arguments)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("create", "new"),
        ("show",),
        ("inject", "node"),
        ("inject", "node", "nonsense"),
        ("inject", "node", "gpu-lost"),
        ("inject", "node", "call-fails", "--function", "*", "--code", "x"),
        ("reset", "node"),
    ],
)
def test_wrong_arguments(gpusharing: Cli, arguments: tuple[str, ...]) -> None:
    result = gpusharing(*arguments)
    assert result.returncode == 2
    assert "usage: " in result.stderr


def test_help_of_everything(capsys: pytest.CaptureFixture[str]) -> None:
    commands = ["create", "show", "run", "inject", "clear", "reset", "reboot", "reload-driver"]
    for arguments in (["--help"], *([name, "--help"] for name in commands), *_fault_help()):
        with pytest.raises(SystemExit) as end:
            _parser().parse_args(["sim", *arguments])
        assert end.value.code == 0
        assert "usage: " in capsys.readouterr().out


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    cli.register(parser.add_subparsers())
    return parser


def _fault_help() -> list[list[str]]:
    return [[command, "node", fault, "--help"] for command in ("inject", "clear") for fault in faults.FAULTS]
