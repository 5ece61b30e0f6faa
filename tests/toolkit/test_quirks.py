"""Every kind of real node that we know of: the agent finds its way on each, and puts everything back."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.agent.containers.cdi import CdiDirectory
from gpusharing.nvidia.cdi_generation import CdiGenerator
from gpusharing.nvidia.cdi_specs import CdiSpecs
from gpusharing.sim import Quirk
from sim.mps_daemons import kill_programs_of

UID = "11111111-2222-3333-4444-555555555555"
# What `selftest` does not find on a node, which is no failure of ours.
NOT_HERE = {Quirk.TIMESLICE_UNREADABLE: "time slice", Quirk.NO_CDI: "CDI device", Quirk.VGPU_GUEST: "MIG"}

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="settings of the driver are for root only")


@pytest.fixture(params=list(Quirk), ids=lambda quirk: quirk.option)
def quirk(request: pytest.FixtureRequest) -> Quirk:
    chosen: Quirk = request.param
    return chosen


def state(node: sim.SimNode) -> list[object]:
    return [(gpu.compute_mode, gpu.timeslice, gpu.mig_mode, gpu.gpu_instances, gpu.processes) for gpu in node.gpus()]


def test_selftest(tmp_path: Path, quirk: Quirk) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB", quirks=quirk)
    before = state(node)
    options = {
        "--driver-root": node.directory,
        "--sysfs-root": node.sys,
        "--proc-root": node.proc,
        "--dev-root": node.dev,
        "--cdi-dir": node.cdi,
        "--state-dir": tmp_path / "state",
        "--mps-dir": tmp_path / "mps",
    }
    words = [str(word) for option in options.items() for word in option]
    result = subprocess.run(
        [sys.executable, "-m", "gpusharing", "agent", "selftest", "--exercise", *words],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    kill_programs_of(node)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "FAILED" not in result.stdout
    rows = [line.split("|")[1:3] for line in result.stdout.splitlines() if line.startswith("| ")]
    missing = {what.strip() for outcome, what in rows if outcome.strip() == "not here"}
    # This driver has no limits of memory, whatever else is peculiar.
    assert missing - {"memory wall", "memory limit"} == ({NOT_HERE[quirk]} if quirk in NOT_HERE else set())
    assert state(node) == before


def test_containers_get_their_gpu(tmp_path: Path, quirk: Quirk, tools: Path) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB:2", quirks=quirk)
    toolkit = node.directory / "usr/local/nvidia/toolkit"
    toolkit.mkdir(parents=True)
    for program in ("nvidia-ctk", "nvidia-cdi-hook"):
        shutil.copy2(tools / program, toolkit / program)
    cdi = CdiDirectory(CdiSpecs((node.cdi,)), CdiGenerator(node.directory))
    for gpu in node.gpus():
        theirs, _ = cdi.devices(UID, 0, uuid=gpu.uuid, minor=gpu.minor, is_instance=False)
        assert theirs == f"{'gpusharing.dev' if quirk is Quirk.NO_CDI else 'nvidia.com'}/gpu={gpu.uuid}"
