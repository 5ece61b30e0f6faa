"""The simulated CUDA process: what it gets, what it is refused, and what is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gpusharing import sim
from gpusharing.sim import cuda, mps
from gpusharing.sim.cuda import Options, running
from harness.privileges import need_root_of_machine
from sim.mps_daemons import MpsDirectory, error_of, eventually, first_line, started
from sim.nvml_setup import NO_LIMIT, make_mig_devices, memory_used, set_memory_limits

RunProgram = Callable[..., Any]

MIB = 1024**2
GIB = 1024**3
OUT_OF_MEMORY, UNAVAILABLE, NO_DEVICE, LAUNCH_FAILED, MAX_CLIENTS, UNKNOWN = 2, 46, 100, 719, 808, 999


@pytest.fixture(autouse=True)
def no_mps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever daemon somebody may have at the default place, and whatever devices the caller's shell may choose."""
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "nowhere"))
    for variable in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"):
        monkeypatch.delenv(variable, raising=False)


def uuid(node: sim.SimNode, index: int = 0) -> str:
    return node.gpus()[index].uuid


def pids(node: sim.SimNode, index: int = 0) -> set[int]:
    return {process.pid for process in node.gpus()[index].processes}


def test_lease(node: sim.SimNode, run_program: RunProgram) -> None:
    with running(node, Options(memory="4G")) as process:
        assert process.lease == cuda.Lease(
            pid=process.pid,
            device=uuid(node),
            memory=4 * GIB,
            memory_limit=None,
            active_thread_percentage=100.0,
            timeslice=sim.Timeslice.DEFAULT,
            mps_server=None,
        )
        assert node.gpus()[0].processes == (sim.Process(pid=process.pid, memory=4 * GIB, kind=sim.ProcessKind.COMPUTE),)
        # And NVIDIA's own binding says the same.
        report = run_program("inventory.py", env=node.environment())["gpus"][0]
        assert [entry[:2] for entry in report["compute"]] == [[process.pid, 4 * GIB]]
    assert pids(node) == set()


def test_memory(node: sim.SimNode) -> None:
    """81559 MiB less what the driver keeps for itself, and not a MiB more."""
    most = 81008
    assert error_of(node, Options(memory=f"{most + 1}M")) == OUT_OF_MEMORY
    with running(node, Options(memory="60000M")) as first:
        assert error_of(node, Options(memory=f"{most - 60000 + 1}M")) == OUT_OF_MEMORY
        with running(node, Options(memory=f"{most - 60000}M")):
            assert error_of(node, Options(memory="1M")) == OUT_OF_MEMORY
            with running(node, Options(memory="1M", gpu="1")):
                pass
            first.kill()
            with running(node, Options(memory="60000M")):
                pass


@pytest.mark.parametrize(
    ("mode", "first", "second"),
    [
        (sim.ComputeMode.DEFAULT, None, None),
        (sim.ComputeMode.EXCLUSIVE_PROCESS, None, UNAVAILABLE),
        (sim.ComputeMode.PROHIBITED, UNAVAILABLE, UNAVAILABLE),
    ],
)
def test_compute_mode(node: sim.SimNode, mode: sim.ComputeMode, first: int | None, second: int | None) -> None:
    node.set_compute_mode(uuid(node), mode)
    with ExitStack() as stack:
        for expected in (first, second):
            if expected:
                assert error_of(node) == expected
            else:
                stack.enter_context(running(node))
        # The mode is the GPU's, not the node's.
        stack.enter_context(running(node, Options(gpu="1")))


def test_compute_mode_set_later(node: sim.SimNode) -> None:
    """Who has a context keeps it."""
    with running(node) as first, running(node) as second:
        node.set_compute_mode(uuid(node), sim.ComputeMode.EXCLUSIVE_PROCESS)
        assert error_of(node) == UNAVAILABLE
        first.stop()
        assert error_of(node) == UNAVAILABLE
        second.stop()
        with running(node):
            pass


def test_graphics_do_not_take_a_gpu(node: sim.SimNode) -> None:
    node.set_compute_mode(uuid(node), sim.ComputeMode.EXCLUSIVE_PROCESS)
    node.start_process(uuid(node), 4711, GIB, sim.ProcessKind.GRAPHICS)
    with running(node):
        assert error_of(node) == UNAVAILABLE


def test_timeslice(node: sim.SimNode) -> None:
    """Several run; each has the time slice of when it began."""
    with running(node) as before:
        node.set_timeslice(uuid(node), sim.Timeslice.LONG)
        with running(node) as after:
            assert (before.lease.timeslice, after.lease.timeslice) == (sim.Timeslice.DEFAULT, sim.Timeslice.LONG)
            assert pids(node) == {before.pid, after.pid}


@pytest.mark.parametrize(
    ("environment", "index"),
    [
        ({}, 0),
        ({"CUDA_VISIBLE_DEVICES": "1"}, 1),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, 2),
        ({"CUDA_VISIBLE_DEVICES": "{2}"}, 2),
        ({"CUDA_VISIBLE_DEVICES": "{1:.12}"}, 1),
        ({"CUDA_VISIBLE_DEVICES": "1,9"}, 1),
        ({"CUDA_VISIBLE_DEVICES": "9,1"}, None),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, None),
        ({"CUDA_VISIBLE_DEVICES": ""}, None),
        ({"CUDA_VISIBLE_DEVICES": "GPU-no"}, None),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, 0),
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, 0),
        ({"NVIDIA_VISIBLE_DEVICES": "none"}, None),
        ({"NVIDIA_VISIBLE_DEVICES": "{1},{2}"}, 1),
        ({"NVIDIA_VISIBLE_DEVICES": "{1},{2}", "CUDA_VISIBLE_DEVICES": "1"}, 2),
        ({"NVIDIA_VISIBLE_DEVICES": "{1},{2}", "CUDA_VISIBLE_DEVICES": "2"}, None),
        ({"NVIDIA_VISIBLE_DEVICES": "{1}", "CUDA_VISIBLE_DEVICES": "{2}"}, None),
    ],
)
def test_visible_devices(node: sim.SimNode, environment: dict[str, str], index: int | None) -> None:
    uuids = [gpu.uuid for gpu in node.gpus()]
    variables = {name: value.format(*uuids) for name, value in environment.items()}
    if index is None:
        assert error_of(node, environment={**node.environment(), **variables}) == NO_DEVICE
    else:
        with running(node, environment={**node.environment(), **variables}) as process:
            assert process.lease.device == uuids[index]


def test_device_files(node: sim.SimNode, tmp_path: Path) -> None:
    """In a container it sees what has a file in its /dev, numbered from 0."""
    dev = tmp_path / "dev"
    dev.mkdir()
    assert error_of(node, Options(dev=dev)) == NO_DEVICE
    (dev / "nvidia1").touch()
    (dev / "nvidia2").touch()
    with running(node, Options(dev=dev)) as first, running(node, Options(dev=dev, gpu="1")) as second:
        assert (first.lease.device, second.lease.device) == (uuid(node, 1), uuid(node, 2))
    assert error_of(node, Options(dev=dev, gpu=uuid(node, 0))) == NO_DEVICE


class TestEnds:
    def test_sigterm(self, node: sim.SimNode) -> None:
        with running(node) as process:
            assert process.stop() == 0
        assert pids(node) == set()

    def test_sigkill(self, node: sim.SimNode) -> None:
        """Nobody tidies up: who looks next finds the slot and the memory free."""
        with running(node, Options(memory="70G")) as process:
            os.kill(process.pid, signal.SIGKILL)
            process.kill()
            with running(node, Options(memory="70G")) as second:
                assert pids(node) == {second.pid}
        assert node.gpus()[0].processes == ()

    def test_by_itself(self, node: sim.SimNode) -> None:
        started = time.monotonic()
        with running(node, Options(seconds=0.3)) as process:
            eventually(lambda: not process.is_running())
        assert time.monotonic() - started >= 0.3

    def test_fault(self, node: sim.SimNode) -> None:
        with running(node) as culprit, running(node) as other:
            culprit.fault()
            assert culprit.error().code == LAUNCH_FAILED
            assert other.is_running()

    def test_reboot(self, node: sim.SimNode) -> None:
        with running(node) as process:
            node.reboot()
            assert process.error().code == UNKNOWN
        assert pids(node) == set()

    def test_driver_unloaded(self, node: sim.SimNode) -> None:
        with running(node) as process:
            node.unload_driver()
            assert process.error().code == UNKNOWN
        assert error_of(node) == NO_DEVICE
        node.load_driver()
        with running(node):
            pass

    def test_gpu_in_use_is_not_reset(self, node: sim.SimNode) -> None:
        with running(node) as process:
            with pytest.raises(sim.SimError, match="cannot be reset"):
                node.reset_gpu(uuid(node))
            assert process.is_running()
        node.reset_gpu(uuid(node))

    def test_lost_gpu(self, node: sim.SimNode) -> None:
        with running(node) as process, running(node, Options(gpu="1")) as elsewhere:
            node.inject(sim.faults.GpuLost(uuid(node)))
            assert process.error().code == UNKNOWN
            assert elsewhere.is_running()
        # The others move up.
        with running(node) as next_process:
            assert next_process.lease.device == uuid(node, 1)


class TestHeartbeat:
    def test_undisturbed(self, node: sim.SimNode, tmp_path: Path) -> None:
        file = tmp_path / "heartbeat"
        with running(node, Options(heartbeat=file)) as process:
            eventually(lambda: cuda.read_heartbeat(file).count >= 30)
            beat = cuda.read_heartbeat(file)
            assert beat.pid == process.pid
            assert abs(time.monotonic() - beat.last) < 5

    def test_pause_is_remembered(self, node: sim.SimNode, tmp_path: Path) -> None:
        file = tmp_path / "heartbeat"
        with running(node, Options(heartbeat=file)) as process:
            eventually(lambda: cuda.read_heartbeat(file).count >= 3)
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(0.5)
            os.kill(process.pid, signal.SIGCONT)
            count = cuda.read_heartbeat(file).count
            eventually(lambda: cuda.read_heartbeat(file).count > count + 10)
            assert cuda.read_heartbeat(file).longest_gap > 0.45

    def test_restart_is_seen(self, node: sim.SimNode, tmp_path: Path) -> None:
        file = tmp_path / "heartbeat"
        beats = []
        for _ in range(2):
            with running(node, Options(heartbeat=file)):
                eventually(lambda: cuda.read_heartbeat(file).count >= 3)
                beats.append(cuda.read_heartbeat(file))
        assert beats[0].pid != beats[1].pid

    def test_nobody_finds_it_empty(self, node: sim.SimNode, tmp_path: Path) -> None:
        """Not even for a moment: the next one's file takes the place of the one before, which stays as it was."""
        file = tmp_path / "heartbeat"
        file.write_text("of the one before")
        with file.open() as before, running(node, Options(heartbeat=file)) as process:
            assert cuda.read_heartbeat(file).pid == process.pid
            assert before.read() == "of the one before"
        assert list(tmp_path.glob("heartbeat*")) == [file]

    def test_directory_that_is_missing(self, node: sim.SimNode, tmp_path: Path) -> None:
        with (
            pytest.raises(sim.SimError, match="No such file or directory"),
            running(node, Options(heartbeat=tmp_path / "none/heartbeat")),
        ):
            pass


class TestMig:
    """A GPU in two: 3g.40gb and 1g.10gb, each with one compute instance over all of it."""

    GIB_3G, GIB_1G = 39, 9

    @pytest.fixture
    def devices(self, node: sim.SimNode) -> list[str]:
        return make_mig_devices(node, 0, [(9, 4, 4, 2), (19, 0, 1, 0)])

    def test_process(self, node: sim.SimNode, devices: list[str]) -> None:
        """Nobody notices those of the other instance, neither their memory nor their number."""
        most = [f"{self.GIB_3G}G", f"{self.GIB_1G}G"]
        with (
            running(node, Options(gpu=devices[0], memory=most[0])) as first,
            running(node, Options(gpu=devices[1], memory=most[1])) as second,
        ):
            assert [first.lease.device, second.lease.device] == devices
            gpu = node.gpus()[0]
            ids = [(instance.id, instance.compute_instances[0].id) for instance in gpu.gpu_instances]
            place = {process.pid: (process.gpu_instance, process.compute_instance) for process in gpu.processes}
            assert [place[first.pid], place[second.pid]] == ids
            assert [error_of(node, Options(gpu=device, memory="1G")) for device in devices] == [OUT_OF_MEMORY] * 2
            first.kill()
            with running(node, Options(gpu=devices[0], memory=most[0])):
                pass

    def test_several_in_one_instance(self, node: sim.SimNode, devices: list[str]) -> None:
        with running(node, Options(gpu=devices[1])), running(node, Options(gpu=devices[1])):
            pass

    @pytest.mark.parametrize(
        ("visible", "device"),
        [
            # CUDA shows one MIG device and no GPU beside it.
            (None, 0),
            ("0", 0),
            ("1,0", 0),
            ("1", None),
            ("{1}", 1),
            ("{1},{0}", 1),
            ("MIG-none", NO_DEVICE),
        ],
    )
    def test_visible(self, node: sim.SimNode, devices: list[str], visible: str | None, device: int | None) -> None:
        gpu = visible and visible.format(*devices)
        if device == NO_DEVICE:
            assert error_of(node, Options(gpu=gpu)) == NO_DEVICE
            return
        with running(node, Options(gpu=gpu)) as process:
            assert process.lease.device == (uuid(node, 1) if device is None else devices[device])

    def test_without_instances(self, node: sim.SimNode) -> None:
        make_mig_devices(node, 0, [])
        assert error_of(node, Options(gpu="0")) == NO_DEVICE

    def test_device_files(self, node: sim.SimNode, devices: list[str], tmp_path: Path) -> None:
        """A container needs the GPU's file and those of both instances."""
        dev = tmp_path / "dev"
        (dev / "nvidia-caps").mkdir(parents=True)
        (dev / "nvidia0").touch()
        instance = node.gpus()[0].gpu_instances[1]
        assert instance.compute_instances[0].uuid == devices[1]
        access = [f"gi{instance.id}/access", f"gi{instance.id}/ci{instance.compute_instances[0].id}/access"]
        for file in access:
            assert error_of(node, Options(dev=dev)) == NO_DEVICE
            capability = (node.proc / "driver/nvidia/capabilities/gpu0/mig" / file).read_text()
            minor = capability.partition("DeviceFileMinor: ")[2].split()[0]
            (dev / f"nvidia-caps/nvidia-cap{minor}").touch()
        with running(node, Options(dev=dev)) as process:
            assert process.lease.device == devices[1]

    def test_mps(self, mps_directory: MpsDirectory, devices: list[str]) -> None:
        """A daemon for a MIG device, which takes a seventh of the clients of a GPU."""
        node = mps_directory.node
        directory = MpsDirectory(node, mps_directory.path, {"CUDA_VISIBLE_DEVICES": devices[1]})
        directory.start()
        with ExitStack() as stack:
            for _ in range(6):
                client = stack.enter_context(running(node, directory.client(memory="1M")))
                assert (client.lease.device, client.lease.mps_server) == (devices[1], directory.server())
            assert error_of(node, directory.client(memory="1M")) == MAX_CLIENTS


class TestCgroups:
    """What NVML holds a cgroup to; any directory passes for one here."""

    @pytest.fixture
    def node(self, tmp_path: Path) -> sim.SimNode:
        return sim.create(tmp_path / "new-node", "H100-80GB:2", driver="615")

    @pytest.fixture
    def cgroup(self, tmp_path: Path) -> Path:
        cgroup = tmp_path / "pod/container"
        cgroup.mkdir(parents=True)
        return cgroup

    def test_hard_limit(self, node: sim.SimNode, cgroup: Path) -> None:
        set_memory_limits(node, 0, cgroup, 4 * GIB)
        with running(node, Options(cgroup=cgroup, memory="3G")):
            assert error_of(node, Options(cgroup=cgroup, memory="1025M")) == OUT_OF_MEMORY
            with running(node, Options(cgroup=cgroup, memory="1G")):
                assert memory_used(node, 0, cgroup) == 4 * GIB
                assert error_of(node, Options(cgroup=cgroup, memory="1M")) == OUT_OF_MEMORY
            # Neither other cgroups nor the other GPU.
            with running(node, Options(memory="70G")), running(node, Options(cgroup=cgroup, memory="70G", gpu="1")):
                pass
        assert memory_used(node, 0, cgroup) == 0

    def test_limit_of_the_cgroup_above(self, node: sim.SimNode, cgroup: Path) -> None:
        set_memory_limits(node, 0, cgroup.parent, 4 * GIB)
        with running(node, Options(cgroup=cgroup, memory="4G")):
            assert error_of(node, Options(cgroup=cgroup, memory="1M")) == OUT_OF_MEMORY

    def test_lifted(self, node: sim.SimNode, cgroup: Path) -> None:
        set_memory_limits(node, 0, cgroup, GIB)
        assert error_of(node, Options(cgroup=cgroup, memory="2G")) == OUT_OF_MEMORY
        set_memory_limits(node, 0, cgroup, NO_LIMIT)
        with running(node, Options(cgroup=cgroup, memory="2G")):
            pass

    def test_clients_of_mps_count(self, mps_directory: MpsDirectory, cgroup: Path) -> None:
        """For their own cgroups, not for that of the daemon: so we think, NVIDIA does not say."""
        node = mps_directory.node
        set_memory_limits(node, 0, cgroup, 4 * GIB)
        mps_directory.start()
        options = Options(mps_pipe=mps_directory.pipe, cgroup=cgroup, memory="3G")
        with running(node, options) as client:
            assert client.lease.mps_server
            assert error_of(node, options) == OUT_OF_MEMORY

    def test_missing(self, node: sim.SimNode, tmp_path: Path) -> None:
        assert error_of(node, Options(cgroup=tmp_path / "none")) == UNKNOWN

    @pytest.mark.usefixtures("root")
    def test_own_cgroup(self, node: sim.SimNode) -> None:
        """A real one, below the one that has the limit."""
        need_root_of_machine("make control groups")
        program = str(Path(__file__).parent / "programs/in_own_cgroup.py")
        words = ["unshare", "--mount", sys.executable, program, str(node.library), uuid(node), "4096"]
        result = subprocess.run(
            [*words, *cuda.command(node, Options(gpu="0"))[:2]],
            env=node.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (result.stdout, result.returncode) == ("[0, 1]", 0), result.stderr
        assert "CUDA error 2: CUDA_ERROR_OUT_OF_MEMORY" in result.stderr


@pytest.mark.parametrize(
    "arguments", [["--memory", "5"], ["--memory", "much"], ["--seconds", "0"], ["--seconds", "x"], ["--fast"], ["now"]]
)
def test_wrong_arguments(node: sim.SimNode, arguments: list[str]) -> None:
    result = subprocess.run(
        [node.directory / "bin" / cuda.PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=20
    )
    assert result.returncode == 2
    assert "usage: cuda-process" in result.stderr


def test_execute(node: sim.SimNode) -> None:
    """As `gpusharing sim run` does: the Python process becomes it."""
    program = (
        "import sys; from pathlib import Path; from gpusharing.sim import SimNode, cuda; "
        "cuda.execute(SimNode.open(Path(sys.argv[1])), cuda.Options(memory='1G'))"
    )
    command = [sys.executable, "-c", program, str(node.directory)]
    with started(command, os.environ) as process:
        first_line(process)
        assert pids(node) == {process.pid}
        process.terminate()
        assert process.wait(10) == 0


def test_without_a_node(node: sim.SimNode, tmp_path: Path) -> None:
    environment = {**node.environment(), "GPUSHARING_SIM_STATE": str(tmp_path / "none")}
    assert error_of(node, environment=environment) == NO_DEVICE


@pytest.mark.usefixtures("root")
def test_in_a_pid_namespace(node: sim.SimNode) -> None:
    """As in a container: it thinks that it is process 1; the node knows better, and when it is gone."""
    command = ["unshare", "--fork", "--pid", *cuda.command(node, Options())]
    with started(command, node.environment()) as process:
        assert '"pid": 1,' in first_line(process)
        (pid,) = pids(node)
        assert Path(f"/proc/{pid}/exe").readlink().name == cuda.PROGRAM
        os.kill(pid, signal.SIGKILL)
        process.wait(10)
        assert pids(node) == set()


def test_needs_no_library(node: sim.SimNode) -> None:
    """Containers of tests have nothing but it."""
    for program in (mps.CONTROL, mps.SERVER, cuda.PROGRAM):
        libraries = subprocess.run(
            ["ldd", node.directory / "bin" / program], capture_output=True, text=True, check=False
        )
        assert (libraries.returncode, libraries.stderr.strip()) == (1, "not a dynamic executable")


def test_two_hundred(node: sim.SimNode) -> None:
    """More than one GPU has slots for."""
    options = [Options(gpu=str(number % 2), memory="1M") for number in range(200)]
    with ExitStack() as stack:
        for process in [stack.enter_context(started(cuda.command(node, each), node.environment())) for each in options]:
            first_line(process)
        assert len(pids(node, 0)) == len(pids(node, 1)) == 100
    assert pids(node, 0) == pids(node, 1) == set()
