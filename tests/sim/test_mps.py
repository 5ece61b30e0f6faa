"""MPS servers and their clients: real processes, what each of them sees when another one goes or fails."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.sim import cuda, mps
from gpusharing.sim.cuda import running
from sim.mps_daemons import MpsDirectory, error_of, eventually, first_line, kill_programs_of, programs_of, started

MIB = 1024**2
GIB = 1024**3
SERVER_MEMORY = 30 * MIB

OUT_OF_MEMORY, UNAVAILABLE, NO_DEVICE, LAUNCH_FAILED = 2, 46, 100, 719
CONNECTION_FAILED, RPC_FAILURE, NOT_READY, MAX_CLIENTS, TERMINATED = 805, 806, 807, 808, 810


def uuid(node: sim.SimNode, index: int = 0) -> str:
    return node.gpus()[index].uuid


def processes(node: sim.SimNode, index: int = 0) -> dict[int, sim.ProcessKind]:
    return {process.pid: process.kind for process in node.gpus()[index].processes}


@contextmanager
def several(node: sim.SimNode, count: int, options: cuda.Options) -> Iterator[list[cuda.CudaProcess]]:
    with ExitStack() as stack:
        yield [stack.enter_context(running(node, options)) for _ in range(count)]


@contextmanager
def waiting(directory: MpsDirectory) -> Iterator[subprocess.Popen[str]]:
    """A client that does not get a server yet: it says nothing."""
    command = cuda.command(directory.node, directory.client())
    with started(command, directory.node.environment()) as process:
        eventually(lambda: f"NEW CLIENT {process.pid} " in directory.control_log)
        yield process


def test_first_client_starts_the_server(daemon: MpsDirectory) -> None:
    with running(daemon.node, daemon.client(memory="1G")) as client:
        server = daemon.server()
        assert client.lease == cuda.Lease(
            pid=client.pid,
            device=uuid(daemon.node),
            memory=GIB,
            memory_limit=None,
            active_thread_percentage=100.0,
            timeslice=sim.Timeslice.DEFAULT,
            mps_server=server,
        )
        assert daemon.status(server) == "ACTIVE"
        assert daemon.clients(server) == {client.pid}
        assert daemon.ask("get_device_client_list") == f"{uuid(daemon.node)} {client.pid}\n"
        header, line = daemon.ask("ps").splitlines()
        assert header.split() == ["PID", "ID", "SERVER", "DEVICE", "NAMESPACE", "COMMAND"]
        assert line.split() == [
            str(client.pid),
            "0",
            str(server),
            uuid(daemon.node)[:22],
            str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]"),
            str(daemon.node.directory / "bin" / cuda.PROGRAM),
        ]
        gpu = daemon.node.gpus()[0]
        assert {process.pid: (process.kind, process.memory) for process in gpu.processes} == {
            server: (sim.ProcessKind.COMPUTE, SERVER_MEMORY),
            client.pid: (sim.ProcessKind.MPS_CLIENT, GIB),
        }
    eventually(lambda: daemon.clients(server) == set())
    assert daemon.servers() == [server]
    for line in (
        f"NEW CLIENT {client.pid} from user {os.geteuid()}: Server is not ready, push client to pending list",
        f"Starting new server {server} for user {os.geteuid()}",
        f"NEW SERVER {server}: Ready",
    ):
        assert line in daemon.control_log


def test_server_started_by_hand(daemon: MpsDirectory) -> None:
    user = os.geteuid()
    assert daemon.ask(f"start_server -uid {user}") == ""
    eventually(lambda: [daemon.status(server) for server in daemon.servers()] == ["ACTIVE"])
    server = daemon.server()
    assert daemon.ask(f"start_server -uid {user}") == f"A server of user {user} is already running\n"
    # A server is on each GPU that the daemon may use.
    assert [processes(daemon.node, index) for index in range(3)] == [{server: sim.ProcessKind.COMPUTE}] * 3
    with running(daemon.node, daemon.client()) as client:
        assert client.lease.mps_server == server


def test_initializing(daemon: MpsDirectory) -> None:
    """As long as a server has not said that it is ready, clients wait."""
    program = daemon.node.directory / "bin" / mps.SERVER
    program.unlink()
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    with waiting(daemon) as client:
        server = daemon.server()
        assert daemon.status(server) == "INITIALIZING"
        assert daemon.clients(server) == set()
        assert client.poll() is None
        os.kill(server, signal.SIGKILL)
        eventually(lambda: daemon.servers() not in ([], [server]))
        assert client.poll() is None
    for server in daemon.servers():
        os.kill(server, signal.SIGKILL)


def test_many_clients_at_once(daemon: MpsDirectory) -> None:
    """All that come before there is a server get the same one."""
    command = cuda.command(daemon.node, daemon.client(memory="1M"))
    with ExitStack() as stack:
        clients = [stack.enter_context(started(command, daemon.node.environment())) for _ in range(48)]
        for client in clients:
            first_line(client)
        server = daemon.server()
        assert daemon.clients(server) == {client.pid for client in clients}
        assert processes(daemon.node) == {
            server: sim.ProcessKind.COMPUTE,
            **{client.pid: sim.ProcessKind.MPS_CLIENT for client in clients},
        }
    eventually(lambda: daemon.clients(server) == set())
    assert processes(daemon.node) == {server: sim.ProcessKind.COMPUTE}


def test_no_more_clients_than_cuda_allows(daemon: MpsDirectory) -> None:
    """48 for each device with CUDA 13.0, so the other GPU still takes one."""
    with several(daemon.node, 48, daemon.client(memory="1M")) as clients:
        assert error_of(daemon.node, daemon.client()) == MAX_CLIENTS
        with running(daemon.node, daemon.client(gpu="1")):
            pass
        clients[0].kill()
        with running(daemon.node, daemon.client()):
            pass


@pytest.mark.usefixtures("root")
def test_client_in_a_pid_namespace(daemon: MpsDirectory) -> None:
    """As in a container: the daemon knows it by the PID that it has outside, and can terminate it by that."""
    command = ["unshare", "--fork", "--pid", *cuda.command(daemon.node, daemon.client())]
    with started(command, daemon.node.environment()) as process:
        assert '"pid": 1,' in first_line(process)
        server = daemon.server()
        (pid,) = daemon.clients(server)
        assert processes(daemon.node) == {server: sim.ProcessKind.COMPUTE, pid: sim.ProcessKind.MPS_CLIENT}
        _, line = daemon.ask("ps").splitlines()
        assert line.split()[0] == str(pid)
        assert daemon.ask(f"terminate_client {server} {pid}") == "0\n"
        _, errors = process.communicate(timeout=10)
        assert errors == f"CUDA error {TERMINATED}: CUDA_ERROR_MPS_CLIENT_TERMINATED\n"


class TestComputeMode:
    @pytest.fixture(autouse=True)
    def exclusive(self, node: sim.SimNode) -> None:
        node.set_compute_mode(uuid(node), sim.ComputeMode.EXCLUSIVE_PROCESS)

    def test_clients_share_what_others_do_not_get(self, daemon: MpsDirectory) -> None:
        with several(daemon.node, 3, daemon.client()) as clients:
            assert {client.lease.mps_server for client in clients} == {daemon.server()}
            assert error_of(daemon.node) == UNAVAILABLE

    def test_two_daemons_on_one_gpu(self, node: sim.SimNode, daemon: MpsDirectory) -> None:
        """The server of the second cannot start until the one of the first has gone."""
        second = MpsDirectory(node, daemon.path / "second")
        second.path.mkdir()
        second.start()
        with running(node, daemon.client()):
            server = daemon.server()
            with waiting(second) as client:
                eventually(lambda: second.control_log.count("exited with status 1") > 2)
                assert client.poll() is None
                assert "Failed to start : CUDA_ERROR_DEVICE_UNAVAILABLE" in second.server_log
                assert daemon.status(server) == "ACTIVE"
                daemon.ask(f"shutdown_server {server} -f")
                first_line(client)
                assert [second.status(other) for other in second.servers()] == ["ACTIVE"]

    def test_process_that_was_there_before(self, daemon: MpsDirectory) -> None:
        with running(daemon.node), waiting(daemon):
            eventually(lambda: daemon.control_log.count("exited with status 1") > 2)

    def test_daemon_killed_and_restarted(self, daemon: MpsDirectory) -> None:
        """Its server goes on for those who have it; while it does, new clients get nothing."""
        with running(daemon.node, daemon.client()) as client:
            mps.kill_daemon(daemon.pipe)
            assert error_of(daemon.node, daemon.client()) == UNAVAILABLE
            daemon.start()
            assert daemon.servers() == []
            with waiting(daemon) as new:
                eventually(lambda: daemon.control_log.count("exited with status 1") > 2)
                assert client.is_running()
                client.stop()
                first_line(new)


def test_two_daemons_on_one_gpu(node: sim.SimNode, daemon: MpsDirectory) -> None:
    """Without EXCLUSIVE_PROCESS nothing keeps them apart, nor a process without MPS."""
    second = MpsDirectory(node, daemon.path / "second")
    second.path.mkdir()
    second.start()
    with running(node, daemon.client()), running(node, second.client()), running(node) as plain:
        assert processes(node) == {
            daemon.server(): sim.ProcessKind.COMPUTE,
            second.server(): sim.ProcessKind.COMPUTE,
            plain.pid: sim.ProcessKind.COMPUTE,
            **dict.fromkeys(daemon.clients(daemon.server()), sim.ProcessKind.MPS_CLIENT),
            **dict.fromkeys(second.clients(second.server()), sim.ProcessKind.MPS_CLIENT),
        }


class TestDevicesOfTheDaemon:
    """CUDA_VISIBLE_DEVICES of the daemon numbers the devices anew for its clients."""

    @pytest.fixture
    def last_two(self, node: sim.SimNode, mps_directory: MpsDirectory) -> MpsDirectory:
        settings = {"CUDA_VISIBLE_DEVICES": f"{uuid(node, 2)},{uuid(node, 1)}"}
        directory = MpsDirectory(node, mps_directory.path, settings)
        directory.start()
        return directory

    @pytest.mark.parametrize(("gpu", "index"), [(None, 2), ("0", 2), ("1", 1), ("1,0", 1)])
    def test_ordinals(self, last_two: MpsDirectory, gpu: str | None, index: int) -> None:
        with running(last_two.node, last_two.client(gpu=gpu)) as client:
            assert client.lease.device == uuid(last_two.node, index)
            assert processes(last_two.node, 0) == {}

    def test_uuid(self, last_two: MpsDirectory) -> None:
        with running(last_two.node, last_two.client(gpu=uuid(last_two.node, 1))) as client:
            assert client.lease.device == uuid(last_two.node, 1)

    def test_ordinal_of_the_host(self, last_two: MpsDirectory) -> None:
        assert error_of(last_two.node, last_two.client(gpu="2")) == NO_DEVICE

    def test_gpu_that_is_not_served(self, last_two: MpsDirectory) -> None:
        assert error_of(last_two.node, last_two.client(gpu=uuid(last_two.node, 0))) == NO_DEVICE

    def test_limits_by_ordinal(self, last_two: MpsDirectory) -> None:
        """They mean the daemon's numbers as well."""
        last_two.ask("set_default_device_pinned_mem_limit 0 1G")
        with running(last_two.node, last_two.client(gpu="0")) as client:
            assert (client.lease.device, client.lease.memory_limit) == (uuid(last_two.node, 2), GIB)
        with running(last_two.node, last_two.client(gpu="1")) as client:
            assert client.lease.memory_limit is None


class TestLimits:
    @pytest.mark.parametrize(
        ("setting", "environment", "limit"),
        [
            ("", {}, None),
            ("0 2G", {}, 2048),
            ("{uuid} 2G", {}, 2048),
            ("1 2G", {}, None),
            ("0 2G", {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G"}, 1024),
            ("0 2G", {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "{uuid}=512MB"}, 512),
            # The client cannot lift what the server sets.
            ("0 2G", {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=40G"}, 2048),
            ("0 2G", {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "1=1G"}, 2048),
            ("", {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1G,1=512MB"}, 1024),
        ],
    )
    def test_memory(self, daemon: MpsDirectory, setting: str, environment: dict[str, str], limit: int | None) -> None:
        """What the limit allows is given, a MiB more is an allocation error."""
        node = daemon.node
        if setting:
            daemon.ask(f"set_default_device_pinned_mem_limit {setting.format(uuid=uuid(node))}")
        variables = {name: value.format(uuid=uuid(node)) for name, value in environment.items()}
        most = limit or 8192
        with running(node, daemon.client(memory=f"{most}M"), {**node.environment(), **variables}) as client:
            assert client.lease.memory_limit == (limit and limit * MIB)
        if limit:
            assert (
                error_of(node, daemon.client(memory=f"{most + 1}M"), {**node.environment(), **variables})
                == OUT_OF_MEMORY
            )

    @pytest.mark.parametrize(
        ("setting", "environment", "percentage"),
        [
            (None, {}, 100),
            ("33.5", {}, 33.5),
            ("50", {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "20"}, 20),
            ("20", {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}, 20),
            (None, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "7"}, 7),
        ],
    )
    def test_threads(
        self, daemon: MpsDirectory, setting: str | None, environment: dict[str, str], percentage: float
    ) -> None:
        if setting:
            daemon.ask(f"set_default_active_thread_percentage {setting}")
        with running(daemon.node, daemon.client(), {**daemon.node.environment(), **environment}) as client:
            assert client.lease.active_thread_percentage == percentage

    def test_defaults_are_for_the_next_server(self, daemon: MpsDirectory) -> None:
        with running(daemon.node, daemon.client()):
            daemon.ask("set_default_device_pinned_mem_limit 0 1G")
            daemon.ask("set_default_active_thread_percentage 10")
            server = daemon.server()
            assert daemon.ask(f"get_device_pinned_mem_limit {server} 0") == "No limit\n"
            assert daemon.ask(f"get_active_thread_percentage {server}") == "100.0\n"
            with running(daemon.node, daemon.client()) as client:
                assert (client.lease.memory_limit, client.lease.active_thread_percentage) == (None, 100.0)
        daemon.ask(f"shutdown_server {server}")
        eventually(lambda: daemon.servers() == [])
        with running(daemon.node, daemon.client()) as client:
            assert (client.lease.memory_limit, client.lease.active_thread_percentage) == (GIB, 10.0)

    def test_settings_of_a_server_are_for_its_next_clients(self, daemon: MpsDirectory) -> None:
        with running(daemon.node, daemon.client(memory="2G")) as first:
            server = daemon.server()
            daemon.ask(f"set_device_pinned_mem_limit {server} 0 1G")
            assert daemon.ask(f"set_active_thread_percentage {server} 10") == "10.0\n"
            assert daemon.ask(f"get_device_pinned_mem_limit {server} {uuid(daemon.node)}") == "1024M\n"
            assert daemon.ask("get_default_active_thread_percentage") == "100.0\n"
            with running(daemon.node, daemon.client()) as second:
                assert (second.lease.memory_limit, second.lease.active_thread_percentage) == (GIB, 10.0)
            assert first.is_running()

    def test_last_setting_wins_whatever_the_name(self, daemon: MpsDirectory) -> None:
        daemon.ask("set_default_device_pinned_mem_limit 0 1G")
        daemon.ask(f"set_default_device_pinned_mem_limit {uuid(daemon.node)} 2G")
        with running(daemon.node, daemon.client()) as client:
            assert client.lease.memory_limit == 2 * GIB

    def test_limits_of_the_gpu_remain(self, daemon: MpsDirectory) -> None:
        """Limits reserve nothing: 40 of 80 GiB for each of three clients is two clients."""
        daemon.ask("set_default_device_pinned_mem_limit 0 39G")
        with several(daemon.node, 2, daemon.client(memory="39G")):
            assert error_of(daemon.node, daemon.client(memory="39G")) == OUT_OF_MEMORY


class TestEnds:
    """Who survives whose end."""

    def test_client_ends(self, daemon: MpsDirectory) -> None:
        with several(daemon.node, 2, daemon.client()) as (first, second):
            server = daemon.server()
            assert first.stop() == 0
            eventually(lambda: daemon.clients(server) == {second.pid})
            assert second.is_running()

    def test_client_is_killed(self, daemon: MpsDirectory, tmp_path: Path) -> None:
        heartbeat = tmp_path / "heartbeat"
        with running(daemon.node, daemon.client(heartbeat=heartbeat)), running(daemon.node, daemon.client()) as victim:
            server = daemon.server()
            victim.kill()
            eventually(lambda: victim.pid not in daemon.clients(server))
            assert victim.pid not in processes(daemon.node)
            assert daemon.status(server) == "ACTIVE"
            before = cuda.read_heartbeat(heartbeat)
            eventually(lambda: cuda.read_heartbeat(heartbeat).count > before.count + 5)

    def test_client_is_terminated(self, daemon: MpsDirectory) -> None:
        with several(daemon.node, 2, daemon.client()) as (victim, other):
            server = daemon.server()
            assert daemon.ask(f"terminate_client {server} {victim.pid}") == "0\n"
            assert daemon.clients(server) == {other.pid}
            assert victim.error().code == TERMINATED
            assert daemon.ask(f"terminate_client {server} {victim.pid}") == f"Client {victim.pid} not found\n"
            assert daemon.status(server) == "ACTIVE"
            assert other.is_running()

    def test_waiting_client_is_killed(self, daemon: MpsDirectory) -> None:
        daemon.node.inject(sim.faults.MpsServerDoesNotStart())
        with waiting(daemon) as client:
            client.kill()
        eventually(lambda: daemon.servers() == [])
        before = daemon.control_log.count("Starting new server")
        daemon.ask("get_server_list")
        assert daemon.control_log.count("Starting new server") - before <= 1

    def test_server_is_killed(self, daemon: MpsDirectory) -> None:
        with several(daemon.node, 2, daemon.client()) as clients:
            server = daemon.server()
            os.kill(server, signal.SIGKILL)
            assert [client.error().code for client in clients] == [RPC_FAILURE] * 2
        eventually(lambda: daemon.servers() == [])
        assert f"Server {server} exited with signal 9" in daemon.control_log
        assert processes(daemon.node) == {}
        with running(daemon.node, daemon.client()) as client:
            assert client.lease.mps_server not in (None, server)

    def test_daemon_is_killed(self, daemon: MpsDirectory, tmp_path: Path) -> None:
        """Clients and their server do not even notice. New ones run without MPS, as if nothing was wrong."""
        heartbeat = tmp_path / "heartbeat"
        with running(daemon.node, daemon.client(heartbeat=heartbeat)) as client:
            server = daemon.server()
            mps.kill_daemon(daemon.pipe)
            before = cuda.read_heartbeat(heartbeat)
            eventually(lambda: cuda.read_heartbeat(heartbeat).count > before.count + 20)
            assert server in processes(daemon.node)
            with running(daemon.node, daemon.client()) as fallback:
                assert fallback.lease.mps_server is None
                assert processes(daemon.node)[fallback.pid] == sim.ProcessKind.COMPUTE
            assert client.stop() == 0
        eventually(lambda: programs_of(daemon.node) == [])

    def test_server_shut_down(self, daemon: MpsDirectory) -> None:
        """It goes with its last client; who comes meanwhile waits for the next one."""
        with running(daemon.node, daemon.client()) as client:
            server = daemon.server()
            assert daemon.ask(f"shutdown_server {server}") == ""
            with waiting(daemon) as next_client:
                assert daemon.servers() == [server]
                assert client.is_running()
                client.stop()
                first_line(next_client)
                assert daemon.servers() != [server]

    def test_server_shut_down_by_force(self, daemon: MpsDirectory) -> None:
        with running(daemon.node, daemon.client()) as client:
            daemon.ask(f"shutdown_server {daemon.server()} -f")
            assert client.error().code == RPC_FAILURE

    def test_quit_waits_for_clients(self, daemon: MpsDirectory) -> None:
        with (
            running(daemon.node, daemon.client()) as client,
            started([daemon.program], daemon.environment) as quitter,
        ):
            assert quitter.stdin is not None
            quitter.stdin.write("quit\n")
            quitter.stdin.close()
            eventually(lambda: "Cmd:quit" in daemon.control_log)
            assert daemon.clients(daemon.server()) == {client.pid}
            assert error_of(daemon.node, daemon.client()) == CONNECTION_FAILED
            assert daemon.ask("start_server -uid 0") == "The daemon is shutting down\n"
            assert client.is_running()
            assert quitter.poll() is None
            client.stop()
            assert quitter.wait(10) == 0
        assert programs_of(daemon.node) == []

    @pytest.mark.parametrize("stopped", [False, True], ids=["runs", "hangs"])
    def test_quit_with_a_timeout(self, daemon: MpsDirectory, *, stopped: bool) -> None:
        """After it the server is killed, also one that does not listen any more."""
        with running(daemon.node, daemon.client()) as client:
            if stopped:
                os.kill(daemon.server(), signal.SIGSTOP)
            assert daemon.ask("quit -t 1") == ""
            assert client.error().code == RPC_FAILURE
        eventually(lambda: programs_of(daemon.node) == [])
        assert not daemon.answers()

    def test_quit_with_a_waiting_client(self, daemon: MpsDirectory) -> None:
        daemon.node.inject(sim.faults.MpsServerDoesNotStart())
        with waiting(daemon) as client:
            assert daemon.ask("quit") == ""
            _, errors = client.communicate(timeout=10)
            assert errors == f"CUDA error {CONNECTION_FAILED}: CUDA_ERROR_MPS_CONNECTION_FAILED\n"

    def test_reboot(self, daemon: MpsDirectory) -> None:
        with running(daemon.node, daemon.client()) as client:
            daemon.node.reboot()
            assert client.error().code in (RPC_FAILURE, 999)
        eventually(lambda: programs_of(daemon.node) == [])


class TestFaults:
    def test_fault_of_a_client(self, daemon: MpsDirectory) -> None:
        """All that share the GPU are told; until they have gone there are no new clients."""
        node = daemon.node
        with running(node, daemon.client(gpu="1")) as elsewhere, several(node, 2, daemon.client()) as (culprit, slow):
            server = daemon.server()
            os.kill(slow.pid, signal.SIGSTOP)
            culprit.fault()
            assert culprit.error().code == LAUNCH_FAILED
            eventually(lambda: daemon.status(server) == "FAULT")
            assert error_of(node, daemon.client()) == NOT_READY
            assert daemon.status(server) == "FAULT"
            os.kill(slow.pid, signal.SIGCONT)
            assert slow.error().code == LAUNCH_FAILED
            eventually(lambda: daemon.status(server) == "ACTIVE")
            assert elsewhere.is_running()
            assert daemon.clients(server) == {elsewhere.pid}
            with running(node, daemon.client()) as client:
                assert client.lease.mps_server == server

    def test_server_does_not_start(self, daemon: MpsDirectory) -> None:
        """Again and again while somebody waits for it; then it is as if nothing had been."""
        daemon.node.inject(sim.faults.MpsServerDoesNotStart())
        with waiting(daemon) as client:
            eventually(lambda: daemon.control_log.count("exited with status 1") >= 3)
            assert daemon.control_log.count("Server encountered a fatal exception. Shutting down") >= 3
            assert "Failed to start" in daemon.server_log
            assert client.poll() is None
            assert daemon.answers()
            daemon.node.clear()
            first_line(client)

    def test_hanging_daemon(self, daemon: MpsDirectory) -> None:
        """Clients hang with it; those that have a server do not."""
        with running(daemon.node, daemon.client()) as client:
            os.kill(mps.daemon_pid(daemon.pipe), signal.SIGSTOP)
            command = cuda.command(daemon.node, daemon.client())
            with pytest.raises(subprocess.TimeoutExpired):
                subprocess.run(command, env=daemon.node.environment(), timeout=0.5, check=False)
            assert client.is_running()


@pytest.mark.usefixtures("root")
class TestUsers:
    """Servers belong to users; here root and another one, who can reach the programs, as they are in /usr/bin."""

    OTHER = 65534

    @pytest.fixture
    def node(self) -> Iterator[sim.SimNode]:
        directory = Path(tempfile.mkdtemp(prefix="node-", dir="/tmp"))
        directory.chmod(0o755)
        node = sim.create(directory / "node", "H100-80GB")
        yield node
        kill_programs_of(node)
        shutil.rmtree(directory)

    @pytest.fixture
    def mps_directory(self, mps_directory: MpsDirectory) -> MpsDirectory:
        mps_directory.path.chmod(0o755)
        return mps_directory

    @contextmanager
    def as_other(self, directory: MpsDirectory) -> Iterator[subprocess.Popen[str]]:
        command = cuda.command(directory.node, directory.client())
        with started(
            command, directory.node.environment(), user=self.OTHER, group=self.OTHER, extra_groups=[]
        ) as process:
            yield process

    def owner(self, pid: int) -> int:
        return Path(f"/proc/{pid}").stat().st_uid

    def test_one_user_at_a_time(self, daemon: MpsDirectory) -> None:
        with running(daemon.node, daemon.client()) as mine:
            server = daemon.server()
            assert self.owner(server) == 0
            with self.as_other(daemon) as other:
                eventually(lambda: f"NEW CLIENT {other.pid} from user {self.OTHER}" in daemon.control_log)
                # The first user's next one comes after the other's, whose turn it is now.
                with waiting(daemon) as mine_too:
                    assert other.poll() is None
                    assert daemon.servers() == [server]
                    mine.stop()
                    first_line(other)
                    second = daemon.server()
                    assert self.owner(second) == self.OTHER
                    assert daemon.clients(second) == {other.pid}
                    assert mine_too.poll() is None
                    other.terminate()
                    first_line(mine_too)
                    assert self.owner(daemon.server()) == 0

    def test_one_server_for_all_users(self, mps_directory: MpsDirectory) -> None:
        mps_directory.start("-multiuser-server")
        with running(mps_directory.node, mps_directory.client()) as mine, self.as_other(mps_directory) as other:
            first_line(other)
            server = mps_directory.server()
            assert self.owner(server) == 0
            assert mps_directory.clients(server) == {mine.pid, other.pid}

    def test_server_started_for_somebody(self, daemon: MpsDirectory) -> None:
        daemon.ask(f"start_server -uid {self.OTHER}")
        eventually(lambda: [daemon.status(server) for server in daemon.servers()] == ["ACTIVE"])
        assert self.owner(daemon.server()) == self.OTHER

    def test_others_may_not_command(self, daemon: MpsDirectory) -> None:
        result = subprocess.run(
            [daemon.program],
            env=daemon.environment,
            input="quit\n",
            capture_output=True,
            text=True,
            user=self.OTHER,
            group=self.OTHER,
            extra_groups=[],
            timeout=20,
            check=False,
        )
        assert result.returncode == 1
        assert daemon.answers()
