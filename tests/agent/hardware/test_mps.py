"""MPS daemons of the simulation, which are real processes, in the hands of the agent."""

import asyncio
import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent.hardware.nodes import opened, uuid
from gpusharing import sim
from gpusharing.agent.hardware.errors import MpsError, MpsHungError, NotSupportedError, ProgramMissingError
from gpusharing.agent.hardware.facts import MpsLimits, MpsServerStatus, MpsSetup
from gpusharing.agent.hardware.mps import processes
from gpusharing.agent.hardware.node import Hardware
from gpusharing.sim import cuda, faults, mps
from harness.eventually import eventually
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
def directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="mps-", dir="/tmp"))
    yield path / "gpu-0"
    shutil.rmtree(path)


@pytest.fixture
def setup(node: sim.SimNode, directory: Path) -> MpsSetup:
    gpu = uuid(node)
    return MpsSetup(directory=directory, gpus=(gpu,), limits=MpsLimits(threads=25, memory_mib={gpu: 2048}))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, hardware: Hardware) -> None:
    monkeypatch.setattr(hardware._mps, "_patience", 0.5)


def client(setup: MpsSetup, memory: str = "256M") -> cuda.Options:
    return cuda.Options(mps_pipe=setup.directory / "pipe", memory=memory)


async def test_daemon_is_started_used_and_ended(node: sim.SimNode, hardware: Hardware, setup: MpsSetup) -> None:
    assert await hardware.mps(setup.directory) is None
    started = await hardware.start_mps(setup)
    assert started.found is None
    daemon = started.now
    assert daemon is not None
    assert (daemon.answers, daemon.gpus, daemon.limits, daemon.servers) == (True, setup.gpus, setup.limits, ())

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
            assert (change.now.pid, change.now.limits) == (first.pid, limits)
        # The server that is there has them, too.
        with cuda.running(node, client(setup), node.environment()) as late:
            assert (late.lease.memory_limit, late.lease.active_thread_percentage) == (1024 * MIB, 50.0)
        assert program.is_running()


async def test_one_that_serves_other_gpus_is_not_adopted(
    node: sim.SimNode, hardware: Hardware, setup: MpsSetup
) -> None:
    await hardware.start_mps(setup)
    with pytest.raises(MpsError, match=f"serves {uuid(node)}, not {uuid(node, 1)}: quit it when its clients"):
        await hardware.start_mps(MpsSetup(directory=setup.directory, gpus=(uuid(node, 1),)))


async def test_limit_of_memory_is_not_silently_kept(hardware: Hardware, setup: MpsSetup) -> None:
    """MPS has no command that takes one away."""
    started = (await hardware.start_mps(setup)).now
    with pytest.raises(MpsError, match=f"limits the memory of {setup.gpus[0]}.*quit it when its clients have gone"):
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


async def test_clients_of_any_user_get_to_the_sockets(hardware: Hardware, setup: MpsSetup) -> None:
    before = os.umask(0o077)
    try:
        await hardware.start_mps(setup)
    finally:
        os.umask(before)
    for path in (setup.directory, setup.directory / "pipe"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755


async def test_client_that_does_not_go_is_ended_after_its_time(
    node: sim.SimNode, hardware: Hardware, setup: MpsSetup
) -> None:
    await hardware.start_mps(setup)
    with cuda.running(node, client(setup), node.environment()):
        began = time.monotonic()
        await hardware.quit_mps(setup.directory, grace=1)
        assert 1 <= time.monotonic() - began < 6
        assert await hardware.mps(setup.directory) is None
        assert processes.of_directory(setup.directory / "pipe") == []


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
        assert processes.of_directory(setup.directory / "pipe") == []
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
    assert (again.now.pid != first.pid, again.now.limits) == (True, setup.limits)


@pytest.mark.usefixtures("impatient")
async def test_daemon_that_hangs(node: sim.SimNode, hardware: Hardware, setup: MpsSetup) -> None:
    started = (await hardware.start_mps(setup)).now
    assert started is not None
    node.inject(faults.MpsHangs())
    now = await hardware.mps(setup.directory)
    assert now is not None
    assert (now.pid, now.answers, now.gpus) == (started.pid, False, setup.gpus)
    with pytest.raises(MpsHungError, match=f"{started.pid} .* does not answer: quit it"):
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


async def test_process_that_has_the_number_of_a_dead_daemon_is_left_alone(hardware: Hardware, setup: MpsSetup) -> None:
    pipe = setup.directory / "pipe"
    pipe.mkdir(parents=True)
    process = await asyncio.create_subprocess_exec("sleep", "60", env={"CUDA_MPS_PIPE_DIRECTORY": str(pipe)})
    (pipe / f"{processes.CONTROL}.pid").write_text(f"{process.pid}\n")
    assert await hardware.mps(setup.directory) is None
    assert not (await hardware.quit_mps(setup.directory, grace=0)).changed
    assert process.returncode is None
    process.kill()
    await process.wait()


async def test_daemon_of_another_directory_that_has_the_number_of_a_dead_one_is_left_alone(
    node: sim.SimNode, hardware: Hardware, setup: MpsSetup
) -> None:
    other = MpsSetup(directory=setup.directory.with_name("gpu-1"), gpus=(uuid(node, 1),))
    started = (await hardware.start_mps(other)).now
    assert started is not None
    pipe = setup.directory / "pipe"
    pipe.mkdir(parents=True)
    (pipe / f"{processes.CONTROL}.pid").write_text(f"{started.pid}\n")
    assert await hardware.mps(setup.directory) is None
    assert not (await hardware.quit_mps(setup.directory, grace=0)).changed
    assert await hardware.mps(other.directory) == started


async def test_path_that_is_too_long(node: sim.SimNode, hardware: Hardware, directory: Path) -> None:
    long = directory / ("x" * (108 - len(str(directory)) - len("//pipe/control_privileged")))
    with pytest.raises(MpsError, match="is longer than 107 bytes"):
        await hardware.start_mps(MpsSetup(directory=long, gpus=(uuid(node),)))
    assert programs_of(node) == []
    fits = long.with_name(long.name[1:])
    assert (await hardware.start_mps(MpsSetup(directory=fits, gpus=(uuid(node),)))).now is not None


async def test_directory_that_cannot_be_made(hardware: Hardware, setup: MpsSetup) -> None:
    setup.directory.parent.joinpath("gpu-0").touch()
    with pytest.raises(MpsError, match="directory of an MPS daemon cannot be made"):
        await hardware.start_mps(setup)


async def test_missing_program(node: sim.SimNode, hardware: Hardware, setup: MpsSetup) -> None:
    (node.directory / "bin" / mps.CONTROL).unlink()
    with pytest.raises(ProgramMissingError, match="Set --driver-root"):
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
