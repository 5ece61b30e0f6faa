"""Memory limits of cgroups, from R615 on. How they bind processes is tested with simulated CUDA processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from ctypes import byref, c_char_p, c_void_p
from pathlib import Path

import pynvml as nvml
import pytest

from gpusharing import sim
from gpusharing.sim import cuda, store
from sim import calls
from sim.conftest import PROGRAMS, RunProgram, UseNvml

INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 2, 3, 4, 6
FUNCTION_NOT_FOUND, OPERATING_SYSTEM, MEMORY = 13, 17, 20

MIB = 1024 * 1024
GIB = 1024 * MIB
UNLIMITED = 0xFFFFFFFFFFFFFFFF

pytestmark = pytest.mark.usefixtures("root")


@pytest.fixture
def node(tmp_path: Path, use_nvml: UseNvml) -> sim.SimNode:
    node = sim.create(tmp_path / "node", "H100-80GB:2,L4", driver="615")
    use_nvml(node)
    return node


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    """Any directory passes for one."""
    path = tmp_path / "cgroups/pod/container"
    path.mkdir(parents=True)
    return path


def set_limits(gpu: calls.Handle, cgroup: Path, soft: int, hard: int) -> int:
    limits = nvml.c_nvmlSetMemoryLimits_v1_t(os.fsencode(cgroup), soft, hard)
    return calls.error_of(nvml.nvmlDeviceSetMemoryLimits_v1, gpu, limits)


def get_limits(gpu: calls.Handle, cgroup: Path) -> tuple[int, int, int] | int:
    """Soft, hard and used, or the error."""
    limits = nvml.c_nvmlGetMemoryLimits_v1_t(os.fsencode(cgroup))
    if error := calls.error_of(nvml.nvmlDeviceGetMemoryLimits_v1, gpu, limits):
        return error
    return limits.softLimit, limits.hardLimit, limits.currentUsed


def test_set_change_clear(node: sim.SimNode, cgroup: Path) -> None:
    gpu, other = calls.gpu(0), calls.gpu(1)
    assert get_limits(gpu, cgroup) == NOT_FOUND
    assert set_limits(gpu, cgroup, 4 * GIB, 8 * GIB) == 0
    assert get_limits(gpu, cgroup) == (4 * GIB, 8 * GIB, 0)
    assert get_limits(other, cgroup) == NOT_FOUND
    assert get_limits(gpu, cgroup.parent) == NOT_FOUND
    assert set_limits(gpu, cgroup, 0, 1 * GIB) == 0
    assert set_limits(other, cgroup, 1 * GIB, UNLIMITED) == 0
    assert get_limits(gpu, cgroup) == (0, 1 * GIB, 0)
    assert get_limits(other, cgroup) == (1 * GIB, UNLIMITED, 0)
    for _ in range(2):
        assert set_limits(gpu, cgroup, 0, UNLIMITED) == 0
        assert get_limits(gpu, cgroup) == NOT_FOUND
    assert get_limits(other, cgroup) == (1 * GIB, UNLIMITED, 0)


@pytest.mark.parametrize(
    ("soft", "hard", "code"),
    [
        (2 * GIB, 1 * GIB, INVALID_ARGUMENT),
        (0, 81559 * MIB, 0),
        (0, 81559 * MIB + 1, INVALID_ARGUMENT),
        (0, UNLIMITED - 1, INVALID_ARGUMENT),
        (81559 * MIB + 1, UNLIMITED, INVALID_ARGUMENT),
        (81559 * MIB, UNLIMITED, 0),
        (0, 0, 0),
        (1, 1, 0),
    ],
)
def test_amounts(node: sim.SimNode, cgroup: Path, soft: int, hard: int, code: int) -> None:
    assert set_limits(calls.gpu(0), cgroup, soft, hard) == code
    assert get_limits(calls.gpu(0), cgroup) == ((soft, hard, 0) if code == 0 else NOT_FOUND)


def test_paths(node: sim.SimNode, cgroup: Path, tmp_path: Path) -> None:
    gpu = calls.gpu(0)
    file = tmp_path / "file"
    file.touch()
    for wrong in (cgroup / "absent", file, Path("relative/nowhere")):
        assert set_limits(gpu, wrong, 0, GIB) == OPERATING_SYSTEM
        assert get_limits(gpu, wrong) == OPERATING_SYSTEM
    link = tmp_path / "link"
    link.symlink_to(cgroup)
    assert set_limits(gpu, link, 0, GIB) == 0
    assert get_limits(gpu, cgroup / ".." / cgroup.name) == (0, GIB, 0)


def test_missing_arguments(node: sim.SimNode) -> None:
    gpu, library = calls.gpu(0), nvml.nvmlLib
    for function, structure in (
        (library.nvmlDeviceSetMemoryLimits_v1, nvml.c_nvmlSetMemoryLimits_v1_t),
        (library.nvmlDeviceGetMemoryLimits_v1, nvml.c_nvmlGetMemoryLimits_v1_t),
    ):
        assert function(gpu, None) == INVALID_ARGUMENT
        assert function(gpu, byref(structure(c_char_p(None), 0, GIB))) == INVALID_ARGUMENT
        assert function(c_void_p(1), byref(structure(b"/", 0, GIB))) == INVALID_ARGUMENT


def test_where_there_is_no_support(node: sim.SimNode, cgroup: Path) -> None:
    node.set_memory_limits_supported(node.gpus()[0].uuid, supported=False)
    gpu = calls.gpu(0)
    assert set_limits(gpu, cgroup, 0, GIB) == NOT_SUPPORTED
    assert get_limits(gpu, cgroup) == NOT_SUPPORTED


def test_not_with_mig(node: sim.SimNode, cgroup: Path) -> None:
    gpu = calls.enable_mig(1)
    device = calls.mig_device(gpu, "1g.10gb", 0)
    for handle in (gpu, device):
        assert set_limits(handle, cgroup, 0, GIB) == NOT_SUPPORTED
        assert get_limits(handle, cgroup) == NOT_SUPPORTED


def test_older_driver(tmp_path: Path, use_nvml: UseNvml, cgroup: Path) -> None:
    use_nvml(sim.create(tmp_path / "old", "H100-80GB", driver="610"))
    assert set_limits(calls.gpu(), cgroup, 0, GIB) == FUNCTION_NOT_FOUND
    assert get_limits(calls.gpu(), cgroup) == FUNCTION_NOT_FOUND


def test_removed_cgroup(node: sim.SimNode, cgroup: Path) -> None:
    """A new one at the same path, even with the same inode, begins without a limit."""
    gpu = calls.gpu(0)
    assert set_limits(gpu, cgroup, 0, GIB) == 0
    shutil.rmtree(cgroup)
    assert get_limits(gpu, cgroup) == OPERATING_SYSTEM
    cgroup.mkdir()
    assert get_limits(gpu, cgroup) == NOT_FOUND


def test_limits_of_removed_cgroups_make_room(node: sim.SimNode, cgroup: Path) -> None:
    gpu = calls.gpu(0)
    many = [cgroup / str(number) for number in range(256)]
    for path in many:
        path.mkdir()
        assert set_limits(gpu, path, 0, GIB) == 0
    assert set_limits(gpu, cgroup, 0, GIB) == MEMORY
    many[100].rmdir()
    assert set_limits(gpu, cgroup, 0, GIB) == 0
    assert get_limits(gpu, many[101]) == (0, GIB, 0)


@pytest.mark.parametrize("end", ["reload", "reboot"])
def test_driver_forgets(node: sim.SimNode, cgroup: Path, end: str) -> None:
    assert set_limits(calls.gpu(0), cgroup, 0, GIB) == 0
    node.reboot() if end == "reboot" else node.reload_driver()
    assert get_limits(calls.gpu(0), cgroup) == NOT_FOUND


def test_used(node: sim.SimNode, cgroup: Path) -> None:
    gpu = calls.gpu(0)
    assert set_limits(gpu, cgroup, GIB, 8 * GIB) == 0
    with cuda.running(node, cuda.Options(gpu="0", memory="3G", cgroup=cgroup)):
        assert get_limits(gpu, cgroup) == (GIB, 8 * GIB, 3 * GIB)
        # Limits do not nest: the nearest one is what counts.
        assert set_limits(gpu, cgroup.parent, 0, 16 * GIB) == 0
        assert get_limits(gpu, cgroup.parent) == (0, 16 * GIB, 0)
        assert set_limits(gpu, cgroup, 0, UNLIMITED) == 0
        assert get_limits(gpu, cgroup.parent) == (0, 16 * GIB, 3 * GIB)
    assert get_limits(gpu, cgroup.parent) == (0, 16 * GIB, 0)


def test_reading_needs_no_privilege(node: sim.SimNode, run_program: RunProgram) -> None:
    report = run_program("unprivileged_limits.py", env=node.environment())
    assert report == {"set": NO_PERMISSION, "get": [1, 2, 0]}


def test_from_inside(node: sim.SimNode) -> None:
    """In a real cgroup, mounted as on a machine without version 1: memory is what the cgroup has."""
    script = 'mount -t cgroup2 none /sys/fs/cgroup && exec "$0" "$@"'
    command = ["unshare", "-m", "sh", "-euc", script, sys.executable, str(PROGRAMS / "inside_cgroup.py")]
    result = subprocess.run(
        [*command, str(8 * GIB)], env=node.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    if "unshare failed" in result.stderr or "mount:" in result.stderr:
        pytest.skip("no permission to make a mount namespace")
    assert (result.returncode, result.stderr) == (0, "")
    whole, limited, first_version, back = (line.split() for line in result.stdout.splitlines())
    total, reserved = str(81559 * MIB), str(551 * MIB)
    free = str(81008 * MIB)
    assert whole == back == [total, reserved, free, "0"]
    assert limited == [str(8 * GIB), "0", str(8 * GIB), "0"]
    assert first_version == [total, free, reserved]


def test_every_slot_is_whole_or_free(node: sim.SimNode, cgroup: Path) -> None:
    assert set_limits(calls.gpu(1), cgroup, 5, 6) == 0
    with store.locked(node.state) as state:
        used = [limit for limit in state.memory_limits if limit.cgroup.inode]
        assert [(limit.gpu, limit.soft, limit.hard, limit.path) for limit in used] == [(1, 5, 6, os.fsencode(cgroup))]
