"""Our hook holds containers to what their claims have, through NVIDIA's real one and the simulated driver."""

import contextlib
import fcntl
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.walls.conftest import BuildSite
from agent.walls.site import CLAIM, GIB, Site, held_to, run_hooks
from gpusharing.api.sharing.offers import Enforcement
from gpusharing.nvidia.cdi_specs import Hook
from gpusharing.sim import cuda
from harness.eventually import eventually
from toolkit.container import Container, write_bundle

REQUIRED, PREFERRED = Enforcement.REQUIRED, Enforcement.PREFERRED
ALL_OF_IT = "81559"


def script_hook(directory: Path, script: str) -> Hook:
    """In place of NVIDIA's."""
    program = directory / "nvidia-cdi-hook"
    program.write_text(script)
    program.chmod(0o755)
    return Hook(str(program), (program.name, "apply-cuda-memory-limits"))


async def test_container_is_held_and_others_are_not(site: Site) -> None:
    with site.container(site.device(0, 8192)) as made:
        assert await site.use(made) == held_to(8192)
        with site.running(made, "3G"):
            assert site.is_refused(made, "6G")
            with cuda.running(site.node, cuda.Options(gpu=site.uuid(0), memory="40G")):
                assert await site.noted_uses() == {"c1": held_to(8192, used=3 * GIB)}
            with site.running(made, "5G"):
                assert await site.noted_uses() == {"c1": held_to(8192, used=8 * GIB)}
    assert await site.noted_uses() == {}
    assert site.walls.failure(CLAIM, 0) is None


async def test_two_gpus_with_two_limits(site: Site) -> None:
    with site.container(site.device(0, 4096), site.device(1, 16384)) as made:
        assert [await site.use(made, gpu) for gpu in (0, 1, 2)] == [held_to(4096), held_to(16384), None]
        assert (await site.noted_uses(0), await site.noted_uses(1)) == ({"c1": held_to(4096)}, {"c1": held_to(16384)})
        assert site.is_refused(made, "5G", 0)
        with site.running(made, "15G", 1):
            assert site.is_refused(made, "2G", 1)


@pytest.mark.parametrize(
    "variables",
    [
        {"NVIDIA_GPU_MEMORY_LIMIT": ALL_OF_IT},
        {"NVIDIA_GPU_MEMORY_REQUEST": ALL_OF_IT},
        {"NVIDIA_GPU_MEMORY_REQUEST": "0"},
        {
            "NVIDIA_GPU_MEMORY_LIMIT": ALL_OF_IT,
            "NVIDIA_GPU_MEMORY_REQUEST": ALL_OF_IT,
            "NVIDIA_VISIBLE_DEVICES": "all",
            "NVIDIA_DRIVER_CAPABILITIES": "all",
            "NVIDIA_REQUIRE_CUDA": "cuda>=1.0",
            "NVIDIA_DISABLE_REQUIRE": "1",
            "NVIDIA_MIG_CONFIG_DEVICES": "all",
            "NVIDIA_CTK_DEBUG": "true",
            "LD_PRELOAD": "/nowhere.so",
            "PATH": "/nowhere",
        },
    ],
)
async def test_tenant_cannot_lift_it(site: Site, variables: dict[str, str]) -> None:
    """NVIDIA's own hook obeys the tenant first."""
    with site.unstarted(**variables) as made:
        theirs, ours = site.device(0, 4096)
        assert run_hooks(made, [theirs]) is None
        assert await site.use(made) != held_to(4096)
        assert run_hooks(made, [ours]) is None
        assert await site.use(made) == held_to(4096)
        assert site.is_refused(made, "5G")


async def test_second_container_is_refused_while_the_first_lives(site: Site) -> None:
    device = site.device()
    with site.container(device), site.unstarted(name="c2") as second:
        error = run_hooks(second, device)
        assert error == (
            f"memory wall: claim ml/train may have 8192 MiB of {site.uuid(0)}, which cannot be held, so the container "
            "does not start: container c1 of this claim still runs, and each of the two could take all of it. Give "
            "each container a claim of its own.\n"
        )
        assert await site.use(second) is None
        assert await site.noted_uses() == {"c1": held_to(8192)}
        # Another claim's containers are nobody's business, also on the same GPU.
        assert run_hooks(second, site.device(claim="other")) is None


@pytest.mark.parametrize("enforcement", [REQUIRED, PREFERRED])
async def test_of_two_at_once_one_gets_in(site: Site, tmp_path: Path, enforcement: Enforcement) -> None:
    theirs = site.nvidia_hook(0)
    slow = script_hook(tmp_path, f'#!/bin/sh\nsleep 0.5\nexec {theirs.path} "$@"\n')
    device = site.device(0, 8192, enforcement, nvidia_hook=Hook(slow.path, theirs.args, ("PATH=/usr/bin:/bin",)))
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        containers = [stack.enter_context(site.unstarted(name=f"c{number}")) for number in range(4)]
        errors = list(pool.map(lambda made: run_hooks(made, device), containers))
        uses = await site.noted_uses()
    if enforcement is REQUIRED:
        assert sorted("still runs" in (error or "") for error in errors) == [False, True, True, True]
        assert uses == {containers[errors.index(None)].id: held_to(8192)}
    else:
        assert errors == [None] * 4
        assert uses == {made.id: held_to(8192) for made in containers}


def test_it_waits_for_whoever_looks_at_the_same_wall(site: Site) -> None:
    device = site.device(patience=1)
    directory = os.open(site.walls.path(CLAIM, 0), os.O_RDONLY)
    try:
        # Which others may share, but our hook wants it alone.
        fcntl.flock(directory, fcntl.LOCK_SH)
        with site.unstarted() as made:
            assert "another container of this claim has been starting for 1 s" in (run_hooks(made, device) or "")
            fcntl.flock(directory, fcntl.LOCK_UN)
            assert run_hooks(made, device) is None
    finally:
        os.close(directory)


def test_whoever_cannot_be_asked_might_be_alive(site: Site) -> None:
    device = site.device()
    containers = site.walls.path(CLAIM, 0) / "containers"
    containers.mkdir()
    (containers / "odd").write_text("/cgroup.procs")
    with site.unstarted() as made:
        assert "container odd of this claim still runs" in (run_hooks(made, device) or "")


@pytest.mark.parametrize("enforcement", [REQUIRED, PREFERRED])
async def test_dead_predecessor_is_replaced(site: Site, enforcement: Enforcement) -> None:
    device = site.device(0, 8192, enforcement)
    with site.container(device):
        pass
    with site.container(device, name="c2") as made:
        assert await site.noted_uses() == {"c2": held_to(8192)}
        assert [noted.id for noted in site.walls.containers(CLAIM, 0)] == ["c2"]
        assert await site.use(made) == held_to(8192)


async def test_predecessor_without_processes_is_dead(site: Site) -> None:
    """A runtime may be slow to remove its cgroup."""
    device = site.device()
    with site.container(device) as first:
        os.kill(first.pid, signal.SIGKILL)

        async def is_empty() -> None:
            assert "populated 0" in (first.cgroup_from_outside / "cgroup.events").read_text()

        await eventually(is_empty)
        with site.container(device, name="c2"):
            assert await site.noted_uses() == {"c2": held_to(8192)}


async def test_predecessor_lives_in_cgroups_below_its_own(site: Site) -> None:
    device = site.device()
    with site.container(device) as first, site.unstarted(name="c2") as second:
        below = first.cgroup_from_outside / "below"
        below.mkdir()
        (below / "cgroup.procs").write_text(str(first.pid))
        assert "still runs" in (run_hooks(second, device) or "")
        (first.cgroup_from_outside / "cgroup.procs").write_text(str(first.pid))
        below.rmdir()


async def test_preferred_lets_a_second_container_in_and_notes_it(site: Site) -> None:
    device = site.device(0, 8192, PREFERRED)
    with site.container(device), site.container(device, name="c2"):
        # Each is held to it, but not both together.
        assert await site.noted_uses() == {"c1": held_to(8192), "c2": held_to(8192)}
        assert "container c1 of this claim still runs" in (site.walls.failure(CLAIM, 0) or "")
    with site.container(device, name="c3"):
        assert site.walls.failure(CLAIM, 0) is None


async def test_the_same_hook_again_changes_nothing(site: Site) -> None:
    device = site.device()
    with site.container(device) as made:
        assert run_hooks(made, device) is None
        assert await site.noted_uses() == {"c1": held_to(8192)}


SAYS_WHY = "echo first >&2; printf 'it \\tburns\\n\\n' >&2; exit 3"


@pytest.mark.parametrize("enforcement", [REQUIRED, PREFERRED])
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "/nvidia-cdi-hook: No such file or directory. Install nvidia-container-toolkit 1.20.1 or newer"),
        ("", "/nvidia-cdi-hook: Exec format error. On the node, `gpusharing agent selftest` tells"),
        ("#!/nowhere/sh\n", "/nvidia-cdi-hook: No such file or directory. On the node"),
        (f"#!/bin/sh\n{SAYS_WHY}\n", "/nvidia-cdi-hook: it  burns. On the node"),
        ("#!/bin/sh\nexit 1\n", "/nvidia-cdi-hook: it does not say why. "),
        ("#!/bin/sh\nkill -SEGV $$\n", "/nvidia-cdi-hook was ended by signal 11. "),
        ("#!/bin/sh\nyes | head -c 300000; echo end; exit 1\n", "/nvidia-cdi-hook: end. "),
        # What NVIDIA's does when it cannot read the bundle, which it calls a success.
        ("#!/bin/sh\necho 'level=warning msg=\"skipping apply-cuda-memory-limits; failed\"'\n", "skipping apply-cuda"),
        ("#!/bin/sh\nsleep 1000\n", "/nvidia-cdi-hook does not end within 1 s. "),
        ("#!/bin/sh\nsleep 1000 & wait\n", "/nvidia-cdi-hook does not end within 1 s. "),
    ],
)
async def test_nvidias_hook_fails(
    site: Site, tmp_path: Path, script: str | None, reason: str, enforcement: Enforcement
) -> None:
    hook = Hook("/nowhere/nvidia-cdi-hook", ("nvidia-cdi-hook",)) if script is None else script_hook(tmp_path, script)
    patience = 1 if "within" in reason else 20
    device = site.device(enforcement=enforcement, nvidia_hook=hook, patience=patience)
    with site.unstarted() as made:
        error = run_hooks(made, device)
        if enforcement is REQUIRED:
            assert error is not None
            assert reason in error
            assert error.startswith("memory wall: claim ml/train may have 8192 MiB of GPU-")
            assert (error.count("\n"), error[-1]) == (1, "\n")
            assert site.walls.containers(CLAIM, 0) == []
        else:
            assert error is None
            assert reason in (site.walls.failure(CLAIM, 0) or "")
            assert await site.noted_uses() == {"c1": None}


async def test_our_hook_is_killed(site: Site, tmp_path: Path) -> None:
    """By whatever: nobody else gets in while the container is there, and somebody when it is gone."""
    killer = script_hook(tmp_path, "#!/bin/sh\nkill -9 $PPID\nexec sleep 1000\n")
    with site.unstarted() as made, site.unstarted(name="c2") as second:
        assert run_hooks(made, site.device(nvidia_hook=killer)) is not None
        device = site.device()
        assert "container c1 of this claim still runs" in (run_hooks(second, device) or "")
    with site.container(device, name="c3"):
        assert await site.noted_uses() == {"c3": held_to(8192)}


async def test_nvidias_hook_is_ended_with_all_that_it_has_started(site: Site, tmp_path: Path) -> None:
    hook = script_hook(tmp_path, f"#!/bin/sh\nsleep 1000 &\necho $! >{tmp_path}/child\nsleep 1000\n")
    with site.unstarted() as made:
        assert "does not end within 1 s" in (run_hooks(made, site.device(nvidia_hook=hook, patience=1)) or "")
    child = int((tmp_path / "child").read_text())

    async def is_dead() -> None:
        assert not _is_running(child)

    await eventually(is_dead)


def _is_running(pid: int) -> bool:
    """Whoever has inherited a dead one may be slow to notice."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_what_nvidias_hook_left_running_is_not_awaited(site: Site, tmp_path: Path) -> None:
    hook = script_hook(tmp_path, "#!/bin/sh\nsleep 3 &\n")
    with site.unstarted() as made:
        assert run_hooks(made, site.device(nvidia_hook=hook, patience=2)) is None


@pytest.mark.parametrize("enforcement", [REQUIRED, PREFERRED])
async def test_driver_is_too_old(build_site: BuildSite, enforcement: Enforcement) -> None:
    site = build_site(driver="610")
    with site.unstarted() as made:
        error = run_hooks(made, site.device(enforcement=enforcement))
        told = site.walls.failure(CLAIM, 0) if enforcement is PREFERRED else error
        assert "nvmlDeviceSetMemoryLimits_v1" in (told or "")
        assert (error is None) == (enforcement is PREFERRED)


@pytest.mark.parametrize("enforcement", [REQUIRED, PREFERRED])
def test_cgroup_version_1(build_site: BuildSite, enforcement: Enforcement) -> None:
    site = build_site(cgroups="tmpfs")
    bundle = write_bundle(site.directory / "c1", {})
    made = Container(site.machine, cgroup="", pid=site.machine.pid, bundle=bundle)
    error = run_hooks(made, site.device(enforcement=enforcement))
    told = site.walls.failure(CLAIM, 0) if enforcement is PREFERRED else error
    assert "/sys/fs/cgroup is not cgroup v2, and the driver limits no others. Boot the node with " in (told or "")
    assert (error is None) == (enforcement is PREFERRED)


def test_machine_has_no_cgroups_for_containers(site: Site) -> None:
    """A limit of the root would be one of the whole machine."""
    made = Container(site.machine, cgroup="", pid=1, bundle=write_bundle(site.directory / "c1", {}))
    assert "process 1 has no cgroup of its own, but /. " in (run_hooks(made, site.device()) or "")


async def test_more_than_the_gpu_has(site: Site) -> None:
    with site.unstarted() as made:
        assert "Invalid Argument" in (run_hooks(made, site.device(limit_mib=81560)) or "")


def test_limit_of_others_stays(site: Site) -> None:
    """Whoever is refused has not touched the note of the one that is there."""
    device = site.device()
    with site.container(device), site.unstarted(name="c2") as second:
        assert run_hooks(second, device)
        assert [noted.id for noted in site.walls.containers(CLAIM, 0)] == ["c1"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "/wall cannot be read: No such file or directory"),
        ("", "/wall is not what this program can read"),
        ("limit=1\n", "/wall is not what this program can read"),
        ("x" * 40000, "/wall cannot be read: File too large"),
    ],
)
def test_directory_that_cannot_be_read(site: Site, content: str | None, reason: str) -> None:
    """Nobody knows whether it was required."""
    device = site.device(enforcement=PREFERRED)
    wall = site.walls.path(CLAIM, 0) / "wall"
    wall.unlink()
    if content is not None:
        wall.write_text(content)
    with site.unstarted() as made:
        error = run_hooks(made, device)
        assert reason in (error or "")
        assert "the container does not start: " in (error or "")


@pytest.mark.parametrize(
    "line",
    [
        "limit=0\n",
        "limit=-1\n",
        "limit=4 GiB\n",
        "enforcement=None\n",
        "seconds=\n",
        "colour=red\n",
        "nothing\n",
        "end",
    ],
)
def test_wall_of_another_version(site: Site, line: str) -> None:
    device = site.device()
    with (site.walls.path(CLAIM, 0) / "wall").open("a") as file:
        file.write(line)
    with site.unstarted() as made:
        assert "/wall is not what this program can read" in (run_hooks(made, device) or "")


async def test_full_disk(site: Site) -> None:
    device = site.device()
    directory = site.walls.path(CLAIM, 0)
    there = site.machine.seen_from_outside(str(directory))
    wall = (directory / "wall").read_bytes()
    mounted = site.machine.run("mount", "-t", "tmpfs", "-o", "size=64k", "none", directory)
    assert mounted.returncode == 0, mounted.stderr
    (there / "wall").write_bytes(wall)
    with (there / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    with site.unstarted() as made:
        error = run_hooks(made, device) or ""
        assert "No space left on device. Look at the disk of the node.\n" in error
        (there / "ballast").unlink()
        assert run_hooks(made, device) is None
        assert await site.use(made) == held_to(8192)


def test_something_else_is_where_notes_should_be(site: Site) -> None:
    device = site.device()
    (site.walls.path(CLAIM, 0) / "containers").touch()
    with site.unstarted() as made:
        assert "/containers cannot be read: Not a directory. Look at the disk" in (run_hooks(made, device) or "")
