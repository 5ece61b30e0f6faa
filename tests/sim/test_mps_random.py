"""Random lives of a daemon, its servers and their clients: what NVML and the daemon tell agrees with what there is."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from building.properties import load_profile
from gpusharing import sim
from gpusharing.sim import cuda, mps
from sim.mps_daemons import MpsDirectory, error_of, eventually, kill_programs_of

load_profile()

GIB = 1024**3
# What clients ask for is a multiple of 4 GiB, so that there is always room for servers.
GIB_OF_GPU = 76
OUT_OF_MEMORY, RPC_FAILURE, TERMINATED = 2, 806, 810

choices = st.integers(0, 1000)


class MpsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="mps-", dir="/tmp"))
        self.node = sim.create(self.path / "node", "H100-80GB")
        self.directory = MpsDirectory(self.node, self.path / "mps")
        self.directory.path.mkdir()
        self.processes = ExitStack()
        self.clients: list[cuda.CudaProcess] = []
        self.has_daemon = False
        # The daemon's, not those of former daemons.
        self.server: int | None = None
        self.limit: int | None = None
        self.limit_of_server: int | None = None

    def teardown(self) -> None:
        kill_programs_of(self.node)
        self.processes.close()
        shutil.rmtree(self.path)

    def clients_of(self, server: int) -> list[cuda.CudaProcess]:
        return [client for client in self.clients if client.lease.mps_server == server]

    def servers(self) -> set[int]:
        """One whose daemon was killed lives as long as its clients."""
        of_clients = {client.lease.mps_server for client in self.clients if client.lease.mps_server}
        return of_clients | ({self.server} if self.server else set())

    def take_client(self, choice: int) -> cuda.CudaProcess:
        return self.clients.pop(choice % len(self.clients))

    def lose_server(self, server: int) -> None:
        for client in self.clients_of(server):
            assert client.error().code == RPC_FAILURE
            self.clients.remove(client)
        if server == self.server:
            self.server = None

    @precondition(lambda self: not self.has_daemon)
    @rule()
    def start_daemon(self) -> None:
        self.directory.start()
        self.has_daemon = True
        self.limit = None

    @precondition(lambda self: self.has_daemon)
    @rule()
    def kill_daemon(self) -> None:
        mps.kill_daemon(self.directory.pipe)
        self.has_daemon, self.server = False, None

    @precondition(lambda self: self.has_daemon)
    @rule()
    def quit_by_force(self) -> None:
        assert self.directory.ask("quit -t 0") == ""
        self.has_daemon = False
        if self.server:
            self.lose_server(self.server)

    @precondition(lambda self: self.has_daemon)
    @rule(gib=st.sampled_from([4, 8, 32]))
    def set_limit(self, gib: int) -> None:
        self.directory.ask(f"set_default_device_pinned_mem_limit 0 {gib}G")
        self.limit = gib

    @rule(gib=st.sampled_from([4, 8, 32]))
    def start_client(self, gib: int) -> None:
        if self.has_daemon and self.server is None:
            self.limit_of_server = self.limit
        limit = self.limit_of_server if self.has_daemon else None
        used = sum(client.lease.memory for client in self.clients) // GIB
        if gib > GIB_OF_GPU - used or (limit is not None and gib > limit):
            assert error_of(self.node, self.directory.client(memory=f"{gib}G")) == OUT_OF_MEMORY
        else:
            client = self.processes.enter_context(cuda.running(self.node, self.directory.client(memory=f"{gib}G")))
            assert client.lease.memory_limit == (limit and limit * GIB)
            self.clients.append(client)
        if self.has_daemon:
            server = self.directory.server()
            assert self.server in (None, server)
            self.server = server

    @precondition(lambda self: self.clients)
    @rule(choice=choices)
    def stop_client(self, choice: int) -> None:
        assert self.take_client(choice).stop() == 0

    @precondition(lambda self: self.clients)
    @rule(choice=choices)
    def kill_client(self, choice: int) -> None:
        self.take_client(choice).kill()

    @precondition(lambda self: self.server and self.clients_of(self.server))
    @rule(choice=choices)
    def terminate_client(self, choice: int) -> None:
        assert self.server
        mine = self.clients_of(self.server)
        client = mine[choice % len(mine)]
        assert self.directory.ask(f"terminate_client {self.server} {client.pid}") == "0\n"
        assert client.error().code == TERMINATED
        self.clients.remove(client)

    @precondition(lambda self: self.servers())
    @rule(choice=choices)
    def kill_server(self, choice: int) -> None:
        servers = sorted(self.servers())
        server = servers[choice % len(servers)]
        os.kill(server, signal.SIGKILL)
        self.lose_server(server)

    @invariant()
    def nvml_lists_what_there_is(self) -> None:
        expected = {
            **dict.fromkeys(self.servers(), sim.ProcessKind.COMPUTE),
            **{
                client.pid: sim.ProcessKind.MPS_CLIENT if client.lease.mps_server else sim.ProcessKind.COMPUTE
                for client in self.clients
            },
        }
        # A server without daemon needs a moment to notice that its last client has gone.
        eventually(lambda: {each.pid: each.kind for each in self.node.gpus()[0].processes} == expected)
        assert all(client.is_running() for client in self.clients)

    @invariant()
    def daemon_knows_its_clients(self) -> None:
        if not self.has_daemon:
            return
        eventually(lambda: self.directory.servers() == ([self.server] if self.server else []))
        if self.server:
            expected = {client.pid for client in self.clients_of(self.server)}
            eventually(lambda: self.directory.clients(self.server or 0) == expected)


TestMps = MpsMachine.TestCase
TestMps.settings = settings(stateful_step_count=20)
