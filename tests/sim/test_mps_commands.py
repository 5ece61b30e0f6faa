"""The command line of nvidia-cuda-mps-control: what is asked, what is answered, and how the daemon begins and ends."""

from __future__ import annotations

import os
import signal
import socket
import stat
import struct
import subprocess
import time
from contextlib import ExitStack

import pytest

from gpusharing import sim
from gpusharing.sim import mps
from sim.mps_daemons import NO_DAEMON, MpsDirectory, eventually, programs_of, started

UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
SET_LIMIT = "set_default_device_pinned_mem_limit"
GET_LIMIT = "get_default_device_pinned_mem_limit"


@pytest.mark.parametrize(
    ("commands", "answer"),
    [
        ("get_server_list", ""),
        ("", ""),
        ("get_default_active_thread_percentage", "100.0\n"),
        ("set_default_active_thread_percentage 33", "33.0\n"),
        ("set_default_active_thread_percentage 12.5", "12.5\n"),
        ("set_default_active_thread_percentage 50\nget_default_active_thread_percentage", "50.0\n50.0\n"),
        ("set_default_active_thread_percentage 0", "Invalid active thread percentage 0\n"),
        ("set_default_active_thread_percentage 100.1", "Invalid active thread percentage 100.1\n"),
        ("set_default_active_thread_percentage -5", "Invalid active thread percentage -5\n"),
        ("set_default_active_thread_percentage nan", "Invalid active thread percentage nan\n"),
        ("set_default_active_thread_percentage 5x", "Invalid active thread percentage 5x\n"),
        (
            "set_default_active_thread_percentage 5x\nget_default_active_thread_percentage",
            "Invalid active thread percentage 5x\n100.0\n",
        ),
        (f"{GET_LIMIT} 0", "No limit\n"),
        (f"{SET_LIMIT} 0 1G", ""),
        (f"{SET_LIMIT} 0 1G\n{GET_LIMIT} 0", "1024M\n"),
        (f"{SET_LIMIT} 0 512MB\n{GET_LIMIT} 0", "512M\n"),
        (
            f"{SET_LIMIT} 0 1G\n{SET_LIMIT} 0 2G\n{GET_LIMIT} 0",
            "2048M\n",
        ),
        (f"{SET_LIMIT} 0 1G\n" * 100 + f"{GET_LIMIT} 0", "1024M\n"),
        (f"{SET_LIMIT} 0 1G\n{GET_LIMIT} 1", "No limit\n"),
        (f"{SET_LIMIT} {UUID} 3G\n{GET_LIMIT} {UUID}", "3072M\n"),
        (f"{SET_LIMIT} 77 1G", ""),
        (f"{SET_LIMIT} 0 1024", "Invalid memory limit 1024\n"),
        (f"{SET_LIMIT} 0 1K", "Invalid memory limit 1K\n"),
        (f"{SET_LIMIT} 0 -1G", "Invalid memory limit -1G\n"),
        (f"{SET_LIMIT} 0 G", "Invalid memory limit G\n"),
        (f"{SET_LIMIT} 0 99999999999G", "Invalid memory limit 99999999999G\n"),
        ("get_server_status 1", "Server 1 not found\n"),
        ("get_server_status one", "Server one not found\n"),
        ("get_client_list 1", "Server 1 not found\n"),
        ("shutdown_server 1", "Server 1 not found\n"),
        ("terminate_client 1 2", "Server 1 not found\n"),
        ("get_active_thread_percentage 1", "Server 1 not found\n"),
        ("set_device_pinned_mem_limit 1 0 1G", "Server 1 not found\n"),
        ("get_device_client_list", ""),
        ("ps", f"{'PID':<9} {'ID':<5} {'SERVER':<9} {'DEVICE':<22} {'NAMESPACE':<14} COMMAND\n"),
        ("ps -x", "Usage: ps [-p <PID>]\n"),
        ("start_server 0", "Wrong number of arguments for start_server\n"),
        ("start_server -user 0", "Usage: start_server -uid <user id>\n"),
        ("get_server_list now", "Wrong number of arguments for get_server_list\n"),
        (
            f"{SET_LIMIT} 0",
            f"Wrong number of arguments for {SET_LIMIT}\n",
        ),
        ("quit -t soon", "Usage: quit [-t <seconds>]\n"),
        ("quit -t 2000000", "Usage: quit [-t <seconds>]\n"),
        ("quit now", "Usage: quit [-t <seconds>]\n"),
        ("please", "Unknown command: please\n"),
    ],
)
def test_answers_of_an_idle_daemon(daemon: MpsDirectory, commands: str, answer: str) -> None:
    result = daemon.run(commands=commands)
    assert (result.returncode, result.stdout, result.stderr) == (0, answer, "")
    assert daemon.answers()


def test_pipe_directory(daemon: MpsDirectory) -> None:
    eventually((daemon.pipe / "nvidia-cuda-mps-control.pid").exists)
    modes = {entry.name: stat.filemode(entry.stat().st_mode) for entry in daemon.pipe.iterdir()}
    assert modes.pop("log").startswith("p")
    assert modes.pop("nvidia-cuda-mps-control.pid").startswith("-")
    assert modes.pop("control_lock").startswith("-")
    assert modes == {"control": "srw-rw-rw-", "control_privileged": "srwxr-xr-x"}
    assert programs_of(daemon.node) == [mps.daemon_pid(daemon.pipe)]


def test_log(daemon: MpsDirectory) -> None:
    daemon.ask("get_server_list")
    eventually(lambda: "Cmd:get_server_list" in daemon.control_log.splitlines()[-2])
    lines = [line.partition("] ")[2] for line in daemon.control_log.splitlines()]
    assert lines[:3] == [
        f"Starting control daemon using socket {daemon.pipe}/control",
        f"To connect CUDA applications to this daemon, set env CUDA_MPS_PIPE_DIRECTORY={daemon.pipe}",
        "CUDA MPS Control binary version: 13000",
    ]
    assert lines[-4:] == ["Accepting connection...", "NEW UI", "Cmd:get_server_list", "UI closed"]
    assert f"Control {mps.daemon_pid(daemon.pipe):5}]" in daemon.control_log


def test_settings_of_the_environment(mps_directory: MpsDirectory) -> None:
    settings = {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0=1G,{UUID}=512MB",
    }
    directory = MpsDirectory(mps_directory.node, mps_directory.path, settings)
    directory.start()
    assert directory.ask("get_default_active_thread_percentage") == "25.0\n"
    assert directory.ask("get_default_device_pinned_mem_limit 0") == "1024M\n"
    assert directory.ask(f"get_default_device_pinned_mem_limit {UUID}") == "512M\n"


def test_foreground(mps_directory: MpsDirectory) -> None:
    """It stays, writes its log to standard error, and ends by a signal without tidying up."""
    command = [mps_directory.program, "-f"]
    with started(command, mps_directory.environment) as process:
        eventually(mps_directory.answers)
        assert process.poll() is None
        assert mps.daemon_pid(mps_directory.pipe) == process.pid
        process.terminate()
        _, errors = process.communicate(timeout=10)
    assert process.returncode == -signal.SIGTERM
    assert "Starting control daemon" in errors
    assert (mps_directory.pipe / "control").exists()
    assert not mps_directory.answers()


@pytest.mark.parametrize("options", [("-x",), ("-d", "-f"), ("-d", "now"), ("-multiuser-server",)])
def test_wrong_options(mps_directory: MpsDirectory, options: tuple[str, ...]) -> None:
    assert mps_directory.run(*options).returncode == 1
    assert not mps_directory.answers()


@pytest.mark.parametrize("command", ["get_server_list", "get_default_active_thread_percentage", "quit", "quit -t 1"])
def test_no_daemon(mps_directory: MpsDirectory, command: str) -> None:
    result = mps_directory.run(commands=command)
    assert (result.returncode, result.stdout) == (1, NO_DAEMON)


def test_without_a_node(mps_directory: MpsDirectory) -> None:
    mps_directory.node.state.unlink()
    assert mps_directory.run("-d").returncode == 1
    assert programs_of(mps_directory.node) == []


@pytest.mark.parametrize("option", ["-d", "-f"])
def test_second_daemon(daemon: MpsDirectory, option: str) -> None:
    first = mps.daemon_pid(daemon.pipe)
    second = daemon.run(option)
    assert (second.returncode, second.stdout) == (1, "An instance of this daemon is already running\n")
    assert mps.daemon_pid(daemon.pipe) == first
    assert daemon.answers()


def test_ten_daemons_at_once(mps_directory: MpsDirectory) -> None:
    starts = [
        subprocess.Popen([mps_directory.program, "-d"], env=mps_directory.environment, stdout=subprocess.DEVNULL)
        for _ in range(10)
    ]
    assert sorted(start.wait(10) for start in starts) == [0] + [1] * 9
    eventually(mps_directory.answers)
    assert len(programs_of(mps_directory.node)) == 1


def test_path_that_no_socket_can_have(node: sim.SimNode, mps_directory: MpsDirectory) -> None:
    """The daemon starts and ends again; what one sees is that there is none."""
    long = MpsDirectory(node, mps_directory.path / ("long" * 30))
    long.path.mkdir()
    assert long.run("-d").returncode == 0
    eventually(lambda: programs_of(node) == [])
    assert (long.run(commands="get_server_list").stdout, long.answers()) == (NO_DAEMON, False)
    assert "Failed to listen on socket" in long.control_log


def test_killed(daemon: MpsDirectory) -> None:
    """What it leaves behind does not keep the next one from starting, which knows nothing of the former's settings."""
    daemon.ask("set_default_active_thread_percentage 20")
    daemon.ask("set_default_device_pinned_mem_limit 0 1G")
    former = mps.daemon_pid(daemon.pipe)
    mps.kill_daemon(daemon.pipe)
    assert {"control", "control_privileged", "log"} <= {entry.name for entry in daemon.pipe.iterdir()}
    assert daemon.run(commands="get_server_list").stdout == NO_DAEMON
    with pytest.raises(sim.SimError, match="no MPS control daemon runs with the pipe directory"):
        mps.kill_daemon(daemon.pipe)

    daemon.start()
    assert mps.daemon_pid(daemon.pipe) != former
    assert daemon.ask("get_default_active_thread_percentage") == "100.0\n"
    assert daemon.ask("get_default_device_pinned_mem_limit 0") == "No limit\n"


@pytest.mark.parametrize("command", ["quit", "quit -t 0", "quit -t 5"])
def test_quit(daemon: MpsDirectory, command: str) -> None:
    started = time.monotonic()
    assert daemon.ask(command) == ""
    # Nobody is there to wait for.
    assert time.monotonic() - started < 5
    assert not daemon.answers()
    assert [entry.name for entry in daemon.pipe.iterdir()] == ["control_lock"]


def test_quit_and_start_again_and_again(daemon: MpsDirectory) -> None:
    """Who was told that it has ended can start the next one at once."""
    for _ in range(30):
        assert daemon.ask("quit") == ""
        daemon.start()


def test_two_directories(node: sim.SimNode, daemon: MpsDirectory) -> None:
    other = MpsDirectory(node, daemon.path / "other")
    other.path.mkdir()
    other.start()
    daemon.ask("set_default_active_thread_percentage 20")
    assert other.ask("get_default_active_thread_percentage") == "100.0\n"
    mps.kill_daemon(daemon.pipe)
    assert other.answers()


def test_reboot_ends_it(daemon: MpsDirectory) -> None:
    daemon.node.reboot()
    eventually(lambda: programs_of(daemon.node) == [])
    daemon.start()


def test_many_command_lines_at_once(daemon: MpsDirectory) -> None:
    with ExitStack() as stack:
        askers = [stack.enter_context(started([daemon.program], daemon.environment)) for _ in range(40)]
        for number, asker in enumerate(askers, start=1):
            assert asker.stdin is not None
            asker.stdin.write(f"set_default_active_thread_percentage {number}\n")
            asker.stdin.flush()
        for number, asker in enumerate(askers, start=1):
            assert asker.communicate("get_server_list\n", timeout=20)[0] == f"{number}.0\n"


class TestFaults:
    def test_does_not_start(self, mps_directory: MpsDirectory) -> None:
        mps_directory.node.inject(sim.faults.MpsDoesNotStart())
        assert mps_directory.run("-d").returncode == 1
        assert not mps_directory.answers()

    def test_hangs(self, daemon: MpsDirectory) -> None:
        daemon.node.inject(sim.faults.MpsHangs())
        with started([daemon.program], daemon.environment) as asker:
            assert asker.stdin is not None
            asker.stdin.write("get_server_list\n")
            asker.stdin.close()
            with pytest.raises(subprocess.TimeoutExpired):
                asker.wait(0.5)

    def test_stopped(self, daemon: MpsDirectory) -> None:
        """The same, seen from outside, as when the system does not let it run."""
        os.kill(mps.daemon_pid(daemon.pipe), signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(
                [daemon.program], env=daemon.environment, input="get_server_list\n", text=True, timeout=0.5, check=False
            )
        os.kill(mps.daemon_pid(daemon.pipe), signal.SIGCONT)
        eventually(daemon.answers)


def test_the_socket_of_clients_takes_no_commands(mps_directory: MpsDirectory) -> None:
    mps_directory.start()
    for name, answers in (("control", False), ("control_privileged", True)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(5)
            connection.connect(str(mps_directory.pipe / name))
            # A command, as the program sends it.
            connection.send(struct.pack("=I", 0) + b"get_default_active_thread_percentage\0")
            assert bool(connection.recv(1000)) == answers
    assert "User did not send valid credentials" in mps_directory.control_log
