"""`gpusharing agent selftest`, run as a user runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.agent.command import _only_one
from gpusharing.nvidia.facts import MigPlace
from gpusharing.sim import faults
from nvidia.nodes import opened, uuid, with_hooks
from sim.mps_daemons import kill_programs_of
from toolkit.machine import CGROUPS, machine


def selftest(node: sim.SimNode, *arguments: str) -> subprocess.CompletedProcess[str]:
    """On a machine with these GPUs."""
    options = {
        "--driver-root": node.directory,
        "--sysfs-root": node.sys,
        "--proc-root": node.proc,
        "--dev-root": node.dev,
        "--cdi-dir": node.cdi,
        "--state-dir": node.directory / "agent",
        "--mps-dir": node.directory / "mps",
    }
    words = [str(word) for option in options.items() for word in option]
    with machine(node) as host:
        result = host.run(sys.executable, "-m", "gpusharing", "agent", "selftest", *words, *arguments)
        assert not host.seen_from_outside(f"{CGROUPS}/gpusharing-selftest").exists()
    return result


def rows(report: str, what: str) -> list[str]:
    return [line for line in report.splitlines() if line.startswith("|") and f"| {what}" in line]


def state(node: sim.SimNode) -> list[object]:
    return [
        (gpu.uuid, gpu.compute_mode, gpu.timeslice, gpu.mig_mode, gpu.gpu_instances, gpu.processes)
        for gpu in node.gpus()
    ]


@pytest.fixture
def node(tmp_path: Path) -> sim.SimNode:
    node = sim.create(tmp_path / "node", "H100-80GB,A100-80GB,L4", driver="615")
    (node.sys / "fs").mkdir()
    (node.sys / "fs/cgroup").symlink_to(CGROUPS)
    return with_hooks(node)


def test_looking_changes_nothing_and_tells_all(node: sim.SimNode) -> None:
    before = node.state.read_bytes()
    result = selftest(node)
    assert (result.returncode, result.stderr) == (0, "")
    for gpu in node.gpus():
        assert f"### {gpu.name} {gpu.uuid}" in result.stdout
    for text in (
        "| ok | inventory | 3 GPUs, 0 broken; driver 615.71.09, CUDA 13.4 |",
        "| ok | cgroups | v2 |",
        "1g.10gb id 19 at 0,1,2,3,4,5,6:1, 9984 MiB",
        "| not here | MIG | this GPU has none |",
        f"| ok | CDI device | nvidia.com/gpu={uuid(node)} |",
        "| ok | memory wall | supported |",
        "| ok | time slice | Default |",
    ):
        assert text in result.stdout, result.stdout
    assert "FAILED" not in result.stdout
    assert node.state.read_bytes() == before


def test_exercise_tries_everything_and_puts_it_back(node: sim.SimNode) -> None:
    node.set_timeslice(uuid(node), sim.Timeslice.LONG)
    before = state(node)
    result = selftest(node, "--exercise")
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert f"### Exercise on NVIDIA H100 80GB HBM3 {uuid(node)}" in result.stdout
    for what in (
        "compute mode, back",
        "time slice, back",
        "MPS daemon, adopted",
        "MPS memory limit holds",
        "MPS threads limit holds",
        "MPS daemon, ended",
        "memory limit holds",
        "memory limit, back",
        "MIG instance 1g.10gb",
        "MIG device nodes",
        "MIG instance holds",
        "MIG instance, gone",
        "MIG mode, back",
    ):
        (row,) = rows(result.stdout, what)
        assert row.startswith("| ok |"), row
    assert state(node) == before
    kill_programs_of(node)


def test_ampere_is_not_reset_by_a_test(node: sim.SimNode) -> None:
    result = selftest(node, "--exercise", "--gpu", uuid(node, 1))
    assert result.returncode == 0
    (row,) = rows(result.stdout, "MIG |")[-1:]
    assert "would reset this GPU: do that by hand first" in row


async def test_ampere_with_mig_on_is_cut(node: sim.SimNode) -> None:
    async with opened(node) as hardware:
        await hardware.set_mig_mode(uuid(node, 1), enabled=True)
    before = state(node)
    result = selftest(node, "--exercise", "--gpu", uuid(node, 1))
    assert result.returncode == 0, result.stdout
    assert rows(result.stdout, "MIG instance 1g.10gb")
    assert state(node) == before


async def test_gpu_in_use_is_left_alone(node: sim.SimNode) -> None:
    node.start_process(uuid(node), 42, 1)
    before = state(node)
    result = selftest(node, "--exercise", "--gpu", uuid(node))
    assert result.returncode == 1
    assert f"{uuid(node)} is not there or not idle" in result.stdout
    assert state(node) == before
    # Without a choice it is the next one.
    assert f"### Exercise on NVIDIA A100-SXM4-80GB {uuid(node, 1)}" in selftest(node, "--exercise").stdout


@pytest.mark.parametrize(
    ("fault", "what", "text"),
    [
        (faults.CallFails("nvmlDeviceSetComputeMode", 4), "compute mode", "NotPermittedError"),
        (faults.CallLies("gpusharingSimSetTimeslice"), "time slice", "SettingNotAppliedError"),
        (faults.MpsDoesNotStart(), "MPS daemon, started", "MPS does not start"),
        (faults.CallFails("nvmlDeviceSetMemoryLimits_v1", 999), "memory limit", "ConfusedError"),
        (faults.CallFails("nvmlGpuInstanceCreateComputeInstance", 23), "MIG instance 1g.10gb", "NoRoomError"),
        (faults.SmiMissing(), "time slice", "ProgramMissingError"),
        (faults.MpsLimitsNotApplied(), "MPS memory limit holds", "took 3000 MiB, the limit is 1500 MiB"),
        (faults.MpsLimitsNotApplied(), "MPS threads limit holds", "sees 132 of 132 multiprocessors, the limit is 50%"),
    ],
)
def test_what_fails_is_said_and_the_rest_is_tried_all_the_same(
    node: sim.SimNode, fault: faults.Fault, what: str, text: str
) -> None:
    before = state(node)
    node.inject(fault)
    result = selftest(node, "--exercise")
    assert result.returncode == 1
    assert any(row.startswith("| FAILED |") and text in row for row in rows(result.stdout, what)), result.stdout
    assert rows(result.stdout, "MIG mode, back")
    node.clear()
    assert state(node) == before
    kill_programs_of(node)


def test_lost_gpu_is_reported(node: sim.SimNode) -> None:
    node.inject(faults.GpuLost(uuid(node, 1)))
    result = selftest(node)
    assert result.returncode == 1
    assert "| FAILED | GPU with index 1 | uuid unknown: " in result.stdout
    assert f"### NVIDIA L4 {uuid(node, 2)}" in result.stdout


def test_nothing_is_exercised_beside_an_agent(node: sim.SimNode) -> None:
    with _only_one(node.directory / "agent"):
        result = selftest(node, "--exercise")
        assert (result.returncode, result.stdout) == (1, "")
        assert "another agent holds" in result.stderr
        assert selftest(node).returncode == 0


async def test_instances_of_others_are_left_alone(node: sim.SimNode) -> None:
    async with opened(node) as hardware:
        await hardware.set_mig_mode(uuid(node), enabled=True)
        await hardware.create_mig_instance(uuid(node), MigPlace(19, 0))
    before = state(node)
    assert "idle: it must have" in selftest(node, "--exercise", "--gpu", uuid(node)).stdout
    assert state(node) == before


def test_node_without_a_driver(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "L4")
    node.library.unlink()
    result = selftest(node)
    assert result.returncode == 1
    assert "libnvidia-ml.so.1 of the GPU driver is in none of" in result.stderr
