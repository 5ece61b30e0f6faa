"""NVIDIA's hook for containers sets memory limits that the simulated driver then holds them to."""

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.nvidia.cdi_specs import CdiSpecs
from gpusharing.nvidia.memory_walls import MemoryLimit, MemoryUse
from gpusharing.sim import cuda
from nvidia.nodes import opened
from toolkit.container import Container, container, write_bundle
from toolkit.machine import Machine, machine
from toolkit.toolkit import Edits, Toolkit

MIB = 1024**2
GIB = 1024 * MIB
FIRST, SECOND, L4 = range(3)

REQUEST, LIMIT = "NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT"


@dataclass(frozen=True)
class Site:
    """A machine with simulated GPUs, and the CDI spec that NVIDIA's toolkit has made on it."""

    node: sim.SimNode
    machine: Machine
    spec: Mapping[str, Edits]
    specs: Path
    directory: Path

    def uuid(self, gpu: int) -> str:
        return self.node.gpus()[gpu].uuid

    @contextmanager
    def container(self, *devices: str, **environment: str) -> Iterator[Container]:
        """One whose hooks have run well."""
        with container(self.machine, self.directory / "bundle", environment) as made:
            assert [made.run_hooks(self.spec[device]) for device in devices] == [None] * len(devices)
            yield made

    async def memory_use(self, made: Container, gpu: int) -> MemoryUse | None:
        async with opened(self.node) as hardware:
            return await hardware.memory_use(self.uuid(gpu), made.cgroup_from_outside)


BuildSite = Callable[..., Site]


@pytest.fixture
def build(tools: Path, tmp_path: Path) -> Iterator[BuildSite]:
    with ExitStack() as stack:

        def one(*, driver: str = "615", cgroups: str = "cgroup2") -> Site:
            node = sim.create(tmp_path / "node", "H100-80GB:2,L4", driver=driver)
            where = stack.enter_context(machine(node, cgroups=cgroups))
            spec = Toolkit(tools, where, node).generate(tmp_path / "specs/nvidia.json")
            return Site(node, where, spec, tmp_path / "specs", tmp_path)

        yield one


@pytest.fixture
def site(build: BuildSite) -> Site:
    return build()


@pytest.mark.parametrize(
    ("environment", "limit"),
    [
        ({}, None),
        ({LIMIT: "4096"}, MemoryLimit(guaranteed=4 * GIB, most=4 * GIB)),
        ({REQUEST: "1024", LIMIT: "4096"}, MemoryLimit(guaranteed=GIB, most=4 * GIB)),
        ({REQUEST: "1024"}, MemoryLimit(guaranteed=GIB)),
        ({REQUEST: "0", LIMIT: "81559"}, MemoryLimit(most=81559 * MIB)),
        # Clears, as NVML has it.
        ({REQUEST: "0"}, None),
    ],
)
async def test_what_is_set(site: Site, environment: dict[str, str], limit: MemoryLimit | None) -> None:
    with site.container(site.uuid(FIRST), **environment) as made:
        assert await site.memory_use(made, FIRST) == (limit and MemoryUse(limit=limit, used=0))
        assert await site.memory_use(made, SECOND) is None


async def test_all_gpus_get_the_same(site: Site) -> None:
    limit = MemoryUse(limit=MemoryLimit(guaranteed=GIB, most=GIB), used=0)
    with site.container("all", **{LIMIT: "1024"}) as made:
        assert [await site.memory_use(made, gpu) for gpu in (FIRST, SECOND, L4)] == [limit] * 3


@pytest.mark.parametrize("name_of", [Site.uuid, lambda _, gpu: str(gpu)], ids=["by uuid", "by index"])
async def test_container_is_held_to_it_and_counted(site: Site, name_of: Callable[[Site, int], str]) -> None:
    limit = MemoryLimit(guaranteed=8 * GIB, most=8 * GIB)
    three, six = cuda.Options(gpu=site.uuid(FIRST), memory="3G"), cuda.Options(gpu=site.uuid(FIRST), memory="6G")
    with site.container(name_of(site, FIRST), **{LIMIT: "8192"}) as made:
        with _running(made, site.node, three):
            assert await site.memory_use(made, FIRST) == MemoryUse(limit=limit, used=3 * GIB)
            assert "CUDA error 2: " in _error(made, site.node, six)
            # Neither others on this GPU are held to it, nor this container on another GPU; and nobody counts them.
            elsewhere = cuda.Options(gpu=site.uuid(SECOND), memory="40G")
            with cuda.running(site.node, six), _running(made, site.node, elsewhere):
                assert await site.memory_use(made, FIRST) == MemoryUse(limit=limit, used=3 * GIB)
            with _running(made, site.node, three):
                assert await site.memory_use(made, FIRST) == MemoryUse(limit=limit, used=6 * GIB)
        with _running(made, site.node, six):
            assert await site.memory_use(made, FIRST) == MemoryUse(limit=limit, used=6 * GIB)
        assert await site.memory_use(made, FIRST) == MemoryUse(limit=limit, used=0)


async def test_limit_ends_with_the_container(site: Site) -> None:
    with site.container(site.uuid(FIRST), **{LIMIT: "1024"}):
        pass
    (site.directory / "bundle/config.json").unlink()
    (site.directory / "bundle").rmdir()
    with site.container(site.uuid(FIRST)) as made, _running(made, site.node, cuda.Options(memory="6G")):
        assert await site.memory_use(made, FIRST) is None


@pytest.mark.parametrize(
    ("environment", "error"),
    [
        ({REQUEST: "2048", LIMIT: "1024"}, r"memory request (2048 MiB) exceeds memory limit (1024 MiB)"),
        ({LIMIT: "many"}, f"failed to parse {LIMIT}"),
        # More than the board has: what NVML says.
        ({LIMIT: "81560"}, "Invalid Argument"),
    ],
)
async def test_container_does_not_start(site: Site, environment: dict[str, str], error: str) -> None:
    with container(site.machine, site.directory / "bundle", environment) as made:
        assert error in (made.run_hooks(site.spec[site.uuid(FIRST)]) or "")
        assert await site.memory_use(made, FIRST) is None


async def test_gpu_that_was_cut_since(site: Site) -> None:
    """The spec still has it."""
    async with opened(site.node) as hardware:
        await hardware.set_mig_mode(site.uuid(FIRST), enabled=True)
    with container(site.machine, site.directory / "bundle", {LIMIT: "1024"}) as made:
        assert "Not Supported" in (made.run_hooks(site.spec[site.uuid(FIRST)]) or "")


async def test_old_driver(build: BuildSite) -> None:
    """Its library lacks the function: the loader ends the hook where it would be called."""
    site = build(driver="610")
    with container(site.machine, site.directory / "bundle", {LIMIT: "1024"}) as made:
        assert "nvmlDeviceSetMemoryLimits_v1" in (made.run_hooks(site.spec[site.uuid(FIRST)]) or "")


def test_cgroup_version_1(build: BuildSite) -> None:
    site = build(cgroups="tmpfs")
    bundle = write_bundle(site.directory / "bundle", {LIMIT: "1024"})
    anywhere = Container(site.machine, cgroup="", pid=site.machine.pid, bundle=bundle)
    assert "only supported in cgroup v2" in (anywhere.run_hooks(site.spec[site.uuid(FIRST)]) or "")


async def test_our_layer_says_that_it_can_be_done(site: Site) -> None:
    """From what is on this machine: the driver, its cgroups, and the spec that nvidia-ctk has made."""
    async with opened(
        site.node, sysfs_root=site.machine.seen_from_outside("/sys"), specs=CdiSpecs((site.specs,))
    ) as hardware:
        assert (await hardware.memory_wall(site.uuid(FIRST))).obstacles == {}


@contextmanager
def _running(made: Container, node: sim.SimNode, options: cuda.Options) -> Iterator[None]:
    with made.start(node, options) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "it does not get what it wants"
            yield
        finally:
            process.kill()


def _error(made: Container, node: sim.SimNode, options: cuda.Options) -> str:
    with made.start(node, options) as process:
        try:
            return process.communicate(timeout=20)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            raise
