"""A daemon that clients in containers share memory with, and that outlives the agent's own container."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from agent.hardware.nodes import opened, uuid
from gpusharing import sim
from gpusharing.agent.hardware.facts import MpsSetup
from gpusharing.agent.hardware.mps import apart
from gpusharing.sim import cuda
from nvidia.machine import CGROUPS, Machine, machine
from sim.mps_daemons import kill_programs_of, programs_of


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
def shm(tmp_path: Path) -> Path:
    path = tmp_path / "shm"
    path.mkdir()
    return path


def run(host: Machine, shm: Path, script: str, *, cgroups: str = CGROUPS) -> CompletedProcess[str]:
    return host.run(sys.executable, "-I", "-S", apart.__file__, shm, cgroups, "/bin/sh", "-c", script)


def test_its_shared_memory_is_its_own(host: Machine, shm: Path) -> None:
    done = run(host, shm, "echo hello > /dev/shm/of-mps && ls /dev/shm")
    assert (done.returncode, done.stdout) == (0, "of-mps\n"), done
    assert (shm / "of-mps").read_text() == "hello\n"
    assert not host.seen_from_outside("/dev/shm/of-mps").exists()


def test_it_leaves_the_cgroup_of_whoever_starts_it(host: Machine, shm: Path) -> None:
    for _ in range(2):
        assert "0::/gpusharing\n" in run(host, shm, "cat /proc/self/cgroup").stdout


def test_where_cgroups_are_of_version_1_it_stays(host: Machine, shm: Path, tmp_path: Path) -> None:
    assert "0::/gpusharing\n" not in run(host, shm, "cat /proc/self/cgroup", cgroups=str(tmp_path)).stdout


def test_what_cannot_be_is_said(host: Machine, shm: Path) -> None:
    done = run(host, shm / "nowhere", "true")
    assert done.returncode == 1
    told = f"[Errno 2] No such file or directory: 'mount {shm}/nowhere'"
    assert done.stderr == f"/bin/sh cannot be run apart from the agent: {told}\n"


def shared_memory_of_mps(node: sim.SimNode) -> list[list[str]]:
    """As daemon and server see it."""
    processes = [Path(f"/proc/{pid}") for pid in programs_of(node)]
    of_mps = [process for process in processes if (process / "exe").readlink().name.startswith("nvidia-cuda-mps")]
    return [[file.name for file in (process / "root/dev/shm").iterdir()] for process in of_mps]


async def test_an_mps_daemon_and_its_server(node: sim.SimNode, tmp_path: Path) -> None:
    shm = tmp_path / "memory" / "gpu-0"
    async with opened(node) as hardware:
        setup = MpsSetup(directory=tmp_path / "mps", gpus=(uuid(node),), shm=shm)
        daemon = (await hardware.start_mps(setup)).now
        assert daemon is not None
        assert shm.stat().st_mode & 0o7777 == 0o1777
        (shm / "of-a-client").touch()
        with cuda.running(node, cuda.Options(mps_pipe=setup.directory / "pipe"), node.environment()):
            assert shared_memory_of_mps(node) == [["of-a-client"]] * 2
        # The same daemon, whoever asks.
        assert (await hardware.start_mps(setup)).found == (await hardware.mps(setup.directory))
        await hardware.quit_mps(setup.directory, grace=1)
