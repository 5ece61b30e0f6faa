"""A daemon that clients in containers share memory with, and that outlives the agent's own container."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from gpusharing import sim
from gpusharing.nvidia.mps import apart
from gpusharing.nvidia.mps.daemon import MpsSetup
from gpusharing.nvidia.mps.directory import MpsDirectory
from gpusharing.sim import cuda
from harness.images import busybox
from harness.mounts import daemons_in, unmount_below
from harness.privileges import need_root_of_machine
from nvidia.nodes import opened, uuid
from sim.mps_daemons import eventually, kill_programs_of, programs_of
from toolkit.machine import CGROUPS, Machine, machine


@pytest.fixture
def node(tmp_path: Path) -> Iterator[sim.SimNode]:
    node = sim.create(tmp_path / "node", "H100-80GB")
    yield node
    kill_programs_of(node)


@pytest.fixture
def host(node: sim.SimNode) -> Iterator[Machine]:
    with machine(node) as host:
        yield host
        with suppress(OSError):
            host.seen_from_outside(f"{CGROUPS}/gpusharing").rmdir()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Of a daemon."""
    path = tmp_path / "mps" / "gpu-0"
    (path / "shm").mkdir(parents=True)
    yield path
    unmount_below(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system of its own, with one program."""
    root = tmp_path / "root"
    for place in ("bin", "dev/shm", "mnt", "proc"):
        (root / place).mkdir(parents=True)
    shutil.copy(busybox(), root / "bin/sh")
    return root


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    dev = tmp_path / "dev"
    (dev / "shm").mkdir(parents=True)
    (dev / "of-the-host").touch()
    return dev


def words(root: Path, dev: Path, directory: Path, script: str, cgroups: str = CGROUPS) -> tuple[str | Path, ...]:
    started = (sys.executable, "-I", "-S", apart.__file__, root, dev, cgroups, directory)
    return (*started, "/bin/sh", "-c", script)


def run(
    host: Machine, root: Path, dev: Path, directory: Path, script: str, *, cgroups: str = CGROUPS
) -> CompletedProcess[str]:
    return host.run(*words(root, dev, directory, script, cgroups))


def test_it_runs_in_the_root_of_the_driver_with_the_devices_of_the_host(
    host: Machine, root: Path, dev: Path, directory: Path
) -> None:
    done = run(host, root, dev, directory, "ls / /dev && readlink /proc/self/exe && cat /nothing 2>&1; pwd")
    assert done.stdout.split() == [
        *("/:", "bin", "dev", "mnt", "proc", "/dev:", "of-the-host", "shm", "/bin/sh"),
        *["cat:", "can't", "open", "'/nothing':", "No", "such", "file", "or", "directory", "/"],
    ], done


def test_its_shared_memory_and_directory_are_its_own(host: Machine, root: Path, dev: Path, directory: Path) -> None:
    done = run(host, root, dev, directory, "echo hello > /dev/shm/of-mps && echo pipe > /mnt/pipe")
    assert done.returncode == 0, done
    assert (directory / "shm/of-mps").read_text() == "hello\n"
    assert (directory / "pipe").read_text() == "pipe\n"
    assert list((dev / "shm").iterdir()) == list((root / "mnt").iterdir()) == []


def test_it_keeps_no_mount_of_the_agents(host: Machine, root: Path, dev: Path, directory: Path, tmp_path: Path) -> None:
    """One of a directory that the node has no more would keep a container runtime from hearing of its end."""
    of_the_node, mounted = tmp_path / "run/cdi", tmp_path / "container/cdi"
    for place in (of_the_node, mounted):
        place.mkdir(parents=True)
    assert host.run("mount", "--bind", of_the_node, mounted).returncode == 0
    with subprocess.Popen(
        host.command(words(root, dev, directory, "read end")), stdin=subprocess.PIPE, text=True
    ) as process:

        def mounts() -> str:
            # Of the whole namespace, where nothing may be at /proc; the process itself sees what is below its root.
            enter = ["nsenter", f"--mount=/proc/{process.pid}/ns/mnt", "--wd=/proc", "--"]
            return subprocess.check_output([*enter, "cat", "self/mountinfo"], text=True)

        eventually(lambda: Path(f"/proc/{process.pid}/root").readlink() == root)
        assert f" {root}/dev " in mounts()
        assert str(mounted) not in mounts()
        process.communicate("\n")


def test_it_leaves_the_cgroup_of_whoever_starts_it(host: Machine, root: Path, dev: Path, directory: Path) -> None:
    for _ in range(2):
        assert "0::/gpusharing\n" in run(host, root, dev, directory, "cat /proc/self/cgroup").stdout


def test_where_cgroups_are_of_version_1_it_stays(
    host: Machine, root: Path, dev: Path, directory: Path, tmp_path: Path
) -> None:
    done = run(host, root, dev, directory, "cat /proc/self/cgroup", cgroups=str(tmp_path))
    assert "0::/gpusharing\n" not in done.stdout


def test_what_cannot_be_is_said(host: Machine, root: Path, dev: Path, directory: Path) -> None:
    done = run(host, root, dev, directory / "nowhere", "true")
    assert done.returncode == 1
    problem = f"[Errno 2] No such file or directory: 'mount {directory}/nowhere/shm at {root}/dev/shm'"
    assert done.stderr == f"/bin/sh cannot be run apart from the agent: {problem}\n"


def shared_memory_of_mps(node: sim.SimNode) -> list[list[str]]:
    """As daemon and server see it."""
    processes = [Path(f"/proc/{pid}") for pid in programs_of(node)]
    of_mps = [process for process in processes if (process / "exe").readlink().name.startswith("nvidia-cuda-mps")]
    return [[file.name for file in (process / "root/dev/shm").iterdir()] for process in of_mps]


async def test_an_mps_daemon_and_its_server(node: sim.SimNode, directory: Path) -> None:
    need_root_of_machine("make device nodes")
    where = MpsDirectory(directory)
    async with opened(node) as hardware:
        setup = MpsSetup(directory=directory, gpus=(uuid(node),))
        daemon = (await hardware.start_mps(setup)).now
        assert daemon is not None
        assert where.shm.stat().st_mode & 0o7777 == 0o1777
        (where.shm / "of-a-client").touch()
        with cuda.running(node, cuda.Options(mps_pipe=where.clients), node.environment()):
            assert shared_memory_of_mps(node) == [["of-a-client"]] * 2
        # The same daemon, whoever asks.
        assert (await hardware.start_mps(setup)).found == (await hardware.mps(setup.directory))
        await hardware.quit_mps(setup.directory, grace=1)
    assert daemons_in(directory.parent) == []
