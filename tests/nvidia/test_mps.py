"""MPS daemons of the simulation, which are real processes, in the hands of the agent."""

import asyncio
import contextlib
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from gpusharing import sim
from gpusharing.nvidia.driver_root import DriverRoot
from gpusharing.nvidia.errors import HardwareError, MpsError, MpsHungError, NotSupportedError, ProgramMissingError
from gpusharing.nvidia.hardware import Hardware
from gpusharing.nvidia.mps import processes
from gpusharing.nvidia.mps.control import read_echo
from gpusharing.nvidia.mps.daemon import MpsDaemon, MpsLimits, MpsServerStatus, MpsSetup
from gpusharing.nvidia.mps.directory import MpsDirectory
from gpusharing.nvidia.mps.surroundings import Surroundings, _loader
from gpusharing.sim import Quirk, cuda, faults, mps, procfs
from harness.eventually import eventually
from harness.images import busybox
from harness.mounts import daemons_in, unmount_below
from nvidia.nodes import opened, uuid
from sim.mps_daemons import kill_programs_of, programs_of

MIB = 1024**2


@pytest.fixture
def node(tmp_path: Path) -> Iterator[sim.SimNode]:
    node = sim.create(tmp_path / "node", "H100-80GB:2")
    yield node
    kill_programs_of(node)


@pytest_asyncio.fixture
async def hardware(node: sim.SimNode) -> AsyncIterator[Hardware]:
    async with opened(node) as hardware:
        yield hardware


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "mps"
    yield home / "gpu-0"
    unmount_below(home)


@pytest.fixture
def setup(node: sim.SimNode, directory: Path) -> MpsSetup:
    gpu = uuid(node)
    return MpsSetup(directory=directory, gpus=(gpu,), limits=MpsLimits(threads=25, memory_mib={gpu: 2048}))


def limits_of(daemon: MpsDaemon | None) -> MpsLimits:
    """As it prints them."""
    assert daemon is not None
    assert daemon.threads is not None
    return MpsLimits(threads=daemon.threads, memory_mib={uuid: round(echo.mib) for uuid, echo in daemon.memory.items()})


def processes_of(directory: Path) -> list[processes.Process]:
    return processes.with_mark(MpsDirectory(directory).mark())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, hardware: Hardware) -> None:
    monkeypatch.setattr(hardware._mps, "_patience", 0.5)


def client(setup: MpsSetup, memory: str = "256M") -> cuda.Options:
    return cuda.Options(mps_pipe=MpsDirectory(setup.directory).clients, memory=memory)


async def test_daemon_is_started_used_and_ended(node: sim.SimNode, hardware: Hardware, setup: MpsSetup) -> None:
    assert await hardware.mps(setup.directory) is None
    started = await hardware.start_mps(setup)
    assert started.found is None
    daemon = started.now
    assert daemon is not None
    assert (daemon.answers, daemon.gpus, daemon.servers, limits_of(daemon)) == (True, setup.gpus, (), setup.limits)

    with cuda.running(node, client(setup), node.environment()) as program:
        assert (program.lease.memory_limit, program.lease.active_thread_percentage) == (2048 * MIB, 25.0)
        now = await hardware.mps(setup.directory)
        assert now is not None
        (server,) = now.servers
        assert (server.status, server.clients) == (MpsServerStatus.ACTIVE, (program.pid,))
        with pytest.raises(cuda.CudaError, match="CUDA error 2"), cuda.running(node, client(setup, "3G")):
            pass

    ended = await hardware.quit_mps(setup.directory, grace=1)
    assert (ended.found is not None, ended.now) == (True, None)
    assert await hardware.mps(setup.directory) is None
    assert programs_of(node) == []
    assert not (await hardware.quit_mps(setup.directory, grace=1)).changed


async def test_one_that_runs_is_adopted_with_new_limits(node: sim.SimNode, hardware: Hardware, setup: MpsSetup) -> None:
    """By another agent, which knows nothing but the directory. Clients that are there are not disturbed."""
    first = (await hardware.start_mps(setup)).now
    assert first is not None
    with cuda.running(node, client(setup), node.environment()) as program:
        async with opened(node) as other:
            same = await other.start_mps(setup)
            assert same.found == same.now
            gpu = setup.gpus[0]
            limits = MpsLimits(threads=50, memory_mib={gpu: 1024})
            change = await other.start_mps(MpsSetup(directory=setup.directory, gpus=(gpu,), limits=limits))
            assert change.found == same.now
            assert change.now is not None
            assert (change.now.pid, limits_of(change.now)) == (first.pid, limits)
        # The server that is there has them, too.
        with cuda.running(node, client(setup), node.environment()) as late:
            assert (late.lease.memory_limit, late.lease.active_thread_percentage) == (1024 * MIB, 50.0)
        assert program.is_running()


async def test_one_that_serves_other_gpus_is_not_adopted(
    node: sim.SimNode, hardware: Hardware, setup: MpsSetup
) -> None:
    await hardware.start_mps(setup)
    with pytest.raises(MpsError, match=f"serves {uuid(node)}, not {uuid(node, 1)}: delete the pods that use it"):
        await hardware.start_mps(MpsSetup(directory=setup.directory, gpus=(uuid(node, 1),)))


async def test_limit_of_memory_is_not_silently_kept(hardware: Hardware, setup: MpsSetup) -> None:
    """MPS has no command that takes one away."""
    started = (await hardware.start_mps(setup)).now
    with pytest.raises(MpsError, match=f"limits the memory of {setup.gpus[0]}.*delete the pods that use it"):
        await hardware.start_mps(MpsSetup(directory=setup.directory, gpus=setup.gpus))
    assert await hardware.mps(setup.directory) == started


async def test_daemon_that_only_complains_is_seen_and_ended(
    node: sim.SimNode, hardware: Hardware, setup: MpsSetup
) -> None:
    """Also when its program has been replaced since."""
    started = (await hardware.start_mps(setup)).now
    assert started is not None
    program = node.directory / "bin" / mps.CONTROL
    program.unlink()
    program.write_text("#!/bin/sh\necho no; exit 1\n")
    program.chmod(0o755)
    now = await hardware.mps(setup.directory)
    assert now is not None
    assert (now.pid, now.answers) == (started.pid, False)
    await hardware.quit_mps(setup.directory, grace=0)
    assert await hardware.mps(setup.directory) is None


async def test_two_side_by_side(node: sim.SimNode, hardware: Hardware, setup: MpsSetup) -> None:
    other = MpsSetup(directory=setup.directory.with_name("gpu-1"), gpus=(uuid(node, 1),))
    await hardware.start_mps(setup)
    await hardware.start_mps(other)
    with cuda.running(node, client(other), node.environment()) as program:
        assert program.lease.device == uuid(node, 1)
        assert (program.lease.memory_limit, program.lease.active_thread_percentage) == (None, 100.0)
        await hardware.quit_mps(setup.directory, grace=0)
        assert program.is_running()
        daemon = await hardware.mps(other.directory)
        assert daemon is not None
        assert daemon.servers[0].clients == (program.pid,)


async def test_clients_of_any_user_get_to_the_sockets_and_users_of_the_host_do_not(
    hardware: Hardware, setup: MpsSetup
) -> None:
    before = os.umask(0o077)
    try:
        await hardware.start_mps(setup)
    finally:
        os.umask(before)
    where = MpsDirectory(setup.directory)
    for path in (where.path, where.pipe, where.clients):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert stat.S_IMODE(where.path.parent.stat().st_mode) == 0o700
    # None of what is for root, and nothing that says who the daemon is.
    assert sorted(path.name for path in where.clients.iterdir()) == ["control", "log"]


async def test_client_that_does_not_go_is_ended_after_its_time(
    node: sim.SimNode, hardware: Hardware, setup: MpsSetup
) -> None:
    await hardware.start_mps(setup)
    with cuda.running(node, client(setup), node.environment()):
        began = time.monotonic()
        await hardware.quit_mps(setup.directory, grace=1)
        assert 1 <= time.monotonic() - began < 6
        assert await hardware.mps(setup.directory) is None
        assert processes_of(setup.directory) == []


async def test_dead_daemon_and_what_it_leaves(node: sim.SimNode, hardware: Hardware, setup: MpsSetup) -> None:
    """Nothing is put below clients that still run."""
    await hardware.start_mps(setup)
    with cuda.running(node, client(setup), node.environment()) as program:
        daemon = await hardware.mps(setup.directory)
        assert daemon is not None
        mps.kill_daemon(setup.directory / "pipe")

        async def dead() -> None:
            now = await hardware.mps(setup.directory)
            assert now is not None
            assert (now.pid, now.answers, now.gpus) == (None, False, setup.gpus)
            assert [(one.pid, one.status) for one in now.servers] == [(daemon.servers[0].pid, MpsServerStatus.ORPHANED)]

        await eventually(dead)
        with pytest.raises(MpsError, match=f"is dead, and its servers {daemon.servers[0].pid} may still have clients"):
            await hardware.start_mps(setup)
        assert program.is_running()
        assert (await hardware.quit_mps(setup.directory, grace=0)).changed
        assert processes_of(setup.directory) == []
    assert (await hardware.start_mps(setup)).now is not None


async def test_dead_daemon_without_servers_is_started_anew(hardware: Hardware, setup: MpsSetup) -> None:
    first = (await hardware.start_mps(setup)).now
    mps.kill_daemon(setup.directory / "pipe")

    async def gone() -> None:
        assert await hardware.mps(setup.directory) is None

    await eventually(gone)
    again = await hardware.start_mps(setup)
    assert again.found is None
    assert again.now is not None
    assert first is not None
    # Its limits died with it, and are there again.
    assert (again.now.pid != first.pid, limits_of(again.now)) == (True, setup.limits)


@pytest.mark.usefixtures("impatient")
async def test_daemon_that_hangs(node: sim.SimNode, hardware: Hardware, setup: MpsSetup) -> None:
    started = (await hardware.start_mps(setup)).now
    assert started is not None
    node.inject(faults.MpsHangs())
    now = await hardware.mps(setup.directory)
    assert now is not None
    assert (now.pid, now.answers, now.gpus) == (started.pid, False, setup.gpus)
    with pytest.raises(MpsHungError, match=f"{started.pid} .* does not answer: delete the pods that use it"):
        await hardware.start_mps(setup)
    ended = await hardware.quit_mps(setup.directory, grace=0)
    assert ended.found == now
    assert programs_of(node) == []


@pytest.mark.usefixtures("impatient")
async def test_daemon_that_stops_is_hung(hardware: Hardware, setup: MpsSetup) -> None:
    started = (await hardware.start_mps(setup)).now
    assert started is not None
    assert started.pid is not None
    os.kill(started.pid, signal.SIGSTOP)
    now = await hardware.mps(setup.directory)
    assert now is not None
    assert not now.answers
    assert (await hardware.quit_mps(setup.directory, grace=0)).now is None


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", [faults.MpsDoesNotStart(), faults.MpsHangs()])
async def test_daemon_that_does_not_start_leaves_nothing(
    node: sim.SimNode, hardware: Hardware, setup: MpsSetup, fault: faults.Fault
) -> None:
    node.inject(fault)
    with pytest.raises(MpsError, match=r"MPS does not start: .*; its log ends with: "):
        await hardware.start_mps(setup)
    assert programs_of(node) == []
    node.clear()
    assert (await hardware.start_mps(setup)).now is not None


async def test_servers_that_end_again_and_again(node: sim.SimNode, hardware: Hardware, setup: MpsSetup) -> None:
    """As on GPUs that MPS does not suit."""
    await hardware.start_mps(setup)
    node.inject(faults.MpsServerDoesNotStart())
    process = await asyncio.create_subprocess_exec(*cuda.command(node, client(setup)), env=node.environment())

    async def several() -> None:
        daemon = await hardware.mps(setup.directory)
        assert daemon is not None
        assert daemon.failed_servers > 2

    await eventually(several)
    process.kill()
    await process.wait()


async def test_server_in_fault(node: sim.SimNode, hardware: Hardware, setup: MpsSetup) -> None:
    await hardware.start_mps(setup)
    with cuda.running(node, client(setup)) as bad, cuda.running(node, client(setup)) as slow:
        # As long as it has not noticed, nobody new is let in.
        os.kill(slow.pid, signal.SIGSTOP)
        bad.fault()

        async def fault() -> None:
            daemon = await hardware.mps(setup.directory)
            assert daemon is not None
            assert [server.status for server in daemon.servers] == [MpsServerStatus.FAULT]

        await eventually(fault)


async def test_what_a_container_could_pretend_is_not_believed(
    node: sim.SimNode, hardware: Hardware, setup: MpsSetup
) -> None:
    """A program of this name with all that it can know, and a file with its number."""
    where = MpsDirectory(setup.directory)
    where.make(shm_size=1024**2, with_labels=False)
    program = setup.directory.parent / processes.CONTROL
    shutil.copy("/bin/sleep", program)
    variables = {processes.PIPE_VARIABLE: "/mnt/pipe", processes.MARK_VARIABLE: f"guess {where.path}"}
    process = await asyncio.create_subprocess_exec(program, "60", env=variables)
    (where.pipe / f"{processes.CONTROL}.pid").write_text(f"{process.pid}\n")
    assert await hardware.mps(setup.directory) is None
    assert not (await hardware.quit_mps(setup.directory, grace=0)).changed
    assert process.returncode is None
    process.kill()
    await process.wait()


async def test_directory_that_cannot_be_made(hardware: Hardware, setup: MpsSetup) -> None:
    setup.directory.parent.mkdir()
    setup.directory.touch()
    with pytest.raises(MpsError, match="directory of an MPS daemon cannot be made"):
        await hardware.start_mps(setup)


async def test_missing_program(node: sim.SimNode, hardware: Hardware, setup: MpsSetup) -> None:
    (node.directory / "bin" / mps.CONTROL).unlink()
    with pytest.raises(ProgramMissingError, match="set --driver-root"):
        await hardware.start_mps(setup)


async def test_mig_instances_are_refused_by_name(node: sim.SimNode, hardware: Hardware, directory: Path) -> None:
    await hardware.set_mig_mode(uuid(node), enabled=True)
    node.inject(faults.LoneGpuInstance(uuid(node), "1g.10gb", 0))
    state = (await hardware.inventory()).gpus[0]
    instance = (await hardware.create_mig_instance(uuid(node), state.instances[0].place)).now
    assert instance is not None
    assert instance.uuid is not None
    for device in (instance.uuid, uuid(node)):
        with pytest.raises(NotSupportedError, match="MPS on a GPU with MIG mode on"):
            await hardware.start_mps(MpsSetup(directory=directory, gpus=(device,)))


@pytest.mark.parametrize("taken", ["", "shm", "pipe", "clients/control"], ids=["all of it", "shm", "pipe", "socket"])
async def test_directory_that_somebody_takes_away(
    node: sim.SimNode, hardware: Hardware, setup: MpsSetup, taken: str
) -> None:
    """Clients that are there work on, nobody new is let in to what cannot be used, and when they have gone it is made
    anew."""
    first = (await hardware.start_mps(setup)).now
    where = MpsDirectory(setup.directory)
    with cuda.running(node, client(setup), node.environment()) as program:
        _take_away(where.path / taken)
        with pytest.raises(MpsError, match=r"was removed or unmounted, so new containers.*delete the pods that use it"):
            await hardware.start_mps(setup)
        assert program.is_running()
    if taken == "pipe":
        # Nobody can ask it whether it has clients, so it goes with its claims.
        with pytest.raises(MpsError, match="was removed or unmounted"):
            await hardware.start_mps(setup)
        await hardware.quit_mps(setup.directory, grace=0)
    again = (await hardware.start_mps(setup)).now
    assert again is not None
    assert first is not None
    assert again.pid != first.pid
    with cuda.running(node, client(setup), node.environment()) as program:
        assert program.lease.memory_limit == 2048 * MIB


def _take_away(path: Path) -> None:
    if path.is_mount():
        unmount_below(path)
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


async def test_daemon_whose_directory_has_gone_is_found_and_ended(
    node: sim.SimNode, hardware: Hardware, setup: MpsSetup
) -> None:
    await hardware.start_mps(setup)
    unmount_below(setup.directory)
    setup.directory.rmdir()
    home = setup.directory.parent
    (home / ".key").unlink()
    assert await hardware.mps_directories(home) == [setup.directory]
    await hardware.quit_mps(setup.directory, grace=0)
    assert (await hardware.mps_directories(home), programs_of(node)) == ([], [])


async def test_home_that_others_can_write_to_is_not_used(hardware: Hardware, setup: MpsSetup) -> None:
    home = setup.directory.parent
    home.mkdir()
    home.chmod(0o1777)
    with pytest.raises(MpsError, match="is not a directory that only 0 can write to: remove it"):
        await hardware.start_mps(setup)
    home.rmdir()
    elsewhere = home.with_name("elsewhere")
    elsewhere.mkdir()
    home.symlink_to(elsewhere)
    with pytest.raises(MpsError, match="is not a directory"):
        await hardware.start_mps(setup)
    assert list(elsewhere.iterdir()) == []
    home.unlink()


async def test_shared_memory_has_an_end(node: sim.SimNode, directory: Path) -> None:
    """Of bytes and of files; nothing there can be run, and its end takes no time, however deep or full it is."""
    async with opened(node, mps_shm_size=4 * MIB) as hardware:
        await hardware.start_mps(MpsSetup(directory=directory, gpus=(uuid(node),)))
        shm = MpsDirectory(directory).shm
        with pytest.raises(OSError, match="No space left"):
            (shm / "large").write_bytes(bytes(5 * MIB))
        flags = os.statvfs(shm).f_flag
        assert flags & os.ST_NOSUID
        assert flags & os.ST_NODEV
        assert flags & os.ST_NOEXEC
        with pytest.raises(OSError, match="No space left"):
            _fill_with_files(shm)
        began = time.monotonic()
        await hardware.quit_mps(directory, grace=0)
        assert time.monotonic() - began < 10
        assert daemons_in(directory.parent) == []


def _fill_with_files(directory: Path) -> None:
    for number in range(100_000):
        (directory / str(number)).touch()


async def test_what_was_put_below_the_mount_is_removed(hardware: Hardware, setup: MpsSetup) -> None:
    (setup.directory / "pipe").mkdir(parents=True)
    (setup.directory / "pipe/of-an-earlier-version").touch()
    await hardware.start_mps(setup)
    await hardware.quit_mps(setup.directory, grace=0)
    home = setup.directory.parent

    async def gone() -> None:
        assert [path.name for path in home.iterdir() if path.name != ".key"] == []

    await eventually(gone)


ANSWERS = {
    "garbage": "\x00\xff~!",
    "four hundred digits": "9" * 400,
    "nothing": "",
    "a number that is none": "1e999",
    "negative": "-5",
    "many numbers": "\n".join(str(number) for number in range(5000)),
    "much": "A" * 5_000_000,
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_whatever_a_daemon_answers(
    node: sim.SimNode, hardware: Hardware, setup: MpsSetup, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No exception but our own, and all answers together have their time."""
    await hardware.start_mps(setup)
    text = node.directory / "answer"
    text.write_text(answer)
    _answering(node, "exec cat /answer")
    now = await hardware.mps(setup.directory)
    assert now is not None
    assert len(now.servers) <= 8
    assert len(str(now)) < 100_000
    with contextlib.suppress(HardwareError):
        await hardware.start_mps(setup)
    # Its own time for each would be enough; for all of them together it is not.
    monkeypatch.setattr(hardware._mps, "_patience", 1.0)
    _answering(node, "sleep 0.4; echo 1 2 3")
    began = time.monotonic()
    now = await hardware.mps(setup.directory)
    assert now is not None
    assert not now.answers
    assert time.monotonic() - began < 3


def _answering(node: sim.SimNode, script: str) -> None:
    """Instead of NVIDIA's program, in the root in which it is run."""
    program = node.directory / "bin" / mps.CONTROL
    program.unlink()
    shutil.copy(busybox(), node.directory / "bin/sh")
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("quirks", "printed"),
    [
        (Quirk.HOST_LIBC, 1500),
        (Quirk.MPS_INDEX_ONLY, 1500),
        (Quirk.MPS_ECHO_GIB, 1024),
        (Quirk.SELINUX, 1500),
        (Quirk.LATE_UVM, 1500),
        (Quirk.OPERATOR_ROOT, 1500),
        (Quirk.OPERATOR_ROOT | Quirk.HOST_LIBC | Quirk.MPS_ECHO_GIB | Quirk.LATE_UVM | Quirk.SELINUX, 1024),
    ],
    ids=str,
)
async def test_on_nodes_that_are_different(tmp_path: Path, directory: Path, quirks: Quirk, printed: int) -> None:
    node = sim.create(tmp_path / "quirky", "H100-80GB:2", quirks=quirks)
    gpus = (uuid(node), uuid(node, 1))
    memory = {gpus[0]: 1500, gpus[1]: 1500}
    setup = MpsSetup(directory=directory, gpus=gpus, limits=MpsLimits(threads=30, memory_mib=memory))
    async with opened(node) as hardware:
        for _ in range(2):
            daemon = (await hardware.start_mps(setup)).now
            assert limits_of(daemon) == MpsLimits(threads=30, memory_mib=dict.fromkeys(gpus, printed))
            assert daemon is not None
            assert not daemon.contradicts(setup.limits)
        for gpu in gpus:
            with cuda.running(node, cuda.Options(mps_pipe=MpsDirectory(directory).clients, gpu=gpu)) as program:
                assert (program.lease.device, program.lease.memory_limit) == (gpu, 1500 * MIB)
        if quirks is Quirk.SELINUX:
            where = MpsDirectory(directory)
            for path in (where.pipe, where.clients, where.shm):
                assert os.getxattr(path, "security.selinux") == b"system_u:object_r:container_file_t:s0\0"
        if quirks is Quirk.LATE_UVM:
            assert stat.S_ISCHR((node.dev / "nvidia-uvm").stat().st_mode)
        await hardware.quit_mps(directory, grace=0)
    kill_programs_of(node)


async def test_uvm_without_its_module(tmp_path: Path, directory: Path) -> None:
    node = sim.create(tmp_path / "quirky", "H100-80GB", quirks=Quirk.LATE_UVM)
    devices = (node.proc / "devices").read_text()
    procfs.write(node.proc / "devices", devices.replace("nvidia-uvm", "other"))
    async with opened(node) as hardware:
        with pytest.raises(MpsError, match="has no nvidia-uvm, so the module is not loaded: run `nvidia-modprobe -u"):
            await hardware.start_mps(MpsSetup(directory=directory, gpus=(uuid(node),)))


@pytest.mark.parametrize(
    ("answer", "limit", "agrees"),
    [
        ("2048M", 2048, True),
        ("2048MB", 2048, True),
        ("2048 MiB", 2048, True),
        ("2G", 2048, True),
        ("3G", 3840, True),
        ("4G", 3840, True),
        ("2G", 3840, False),
        ("2147483648", 2048, True),
        ("4096M", 2048, False),
        ("0M", 2048, False),
        ("Default pinned memory limit of device 0: 2048M", 2048, None),
        ("No limit", 2048, None),
        ("", 2048, None),
        ("9" * 400, 2048, None),
    ],
)
def test_echo_of_a_limit(answer: str, limit: int, agrees: bool | None) -> None:
    echo = read_echo(answer)
    assert (echo.may_be(limit) if echo else None) is agrees


def test_loader_of_a_program(tmp_path: Path) -> None:
    assert (_loader(Path(sys.executable).resolve()) or "").startswith("/lib")
    assert _loader(busybox()) is None
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert _loader(script) is None
    assert _loader(tmp_path) is None


def test_root_that_is_only_a_directory_of_files(tmp_path: Path) -> None:
    """As on Container-Optimized OS: its programs have to do with the agent's own loader and C library."""
    for name in ("bin", "lib64"):
        (tmp_path / name).mkdir()
    (tmp_path / "lib64/libnvidia-ml.so.1").touch()
    program = tmp_path / "bin" / processes.CONTROL
    shutil.copy(Path(sys.executable).resolve(), program)
    around = Surroundings(DriverRoot(tmp_path), Path("/dev"), Path("/sys/fs/cgroup"))
    where = MpsDirectory(Path("/run/gpusharing/gpu-0"))
    command = around.start(where, processes.CONTROL, "-d")
    assert command[4:] == ("/", "/dev", "/sys/fs/cgroup", str(where.path), str(program), "-d")
    assert around.environment()["LD_LIBRARY_PATH"] == str(tmp_path / "lib64")
    # As soon as its loader is there, it is a root.
    loader = tmp_path / (_loader(program) or "").lstrip("/")
    loader.parent.mkdir(exist_ok=True)
    loader.touch()
    command = around.start(where, processes.CONTROL, "-d")
    assert command[4:] == (str(tmp_path), "/dev", "/sys/fs/cgroup", str(where.path), f"/bin/{processes.CONTROL}", "-d")
    assert "LD_LIBRARY_PATH" not in around.environment()
