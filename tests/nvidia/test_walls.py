"""Memory walls: where they can be, why not elsewhere, and that they hold."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gpusharing import sim
from gpusharing.nvidia.cdi_specs import CdiSpecs
from gpusharing.nvidia.errors import (
    DriverTooOldError,
    HardwareError,
    InvalidArgumentError,
    NotPermittedError,
    NotSupportedError,
    SettingNotAppliedError,
)
from gpusharing.nvidia.facts import Change
from gpusharing.nvidia.hardware import Hardware
from gpusharing.nvidia.memory_walls import MemoryLimit, MemoryUse, WallObstacle
from gpusharing.sim import cdi, cuda, faults
from nvidia.nodes import opened, uuid, with_walls

MIB, GIB = 1024**2, 1024**3


@pytest.fixture
def node(tmp_path: Path) -> sim.SimNode:
    """With everything that walls need."""
    return with_walls(sim.create(tmp_path / "node", "H100-80GB:2", driver="615"))


@pytest_asyncio.fixture
async def hardware(node: sim.SimNode) -> AsyncIterator[Hardware]:
    async with opened(node, specs=CdiSpecs((node.cdi,))) as hardware:
        yield hardware


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    path = tmp_path / "pod/container"
    path.mkdir(parents=True)
    return path


async def test_supported(node: sim.SimNode, hardware: Hardware) -> None:
    wall = await hardware.memory_wall(uuid(node))
    assert (wall.supported, wall.obstacles) == (True, {})


async def test_everything_that_is_in_the_way_is_said(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB", driver="580")
    async with opened(node, specs=CdiSpecs((node.cdi,))) as hardware:
        wall = await hardware.memory_wall(uuid(node))
    assert not wall.supported
    assert set(wall.obstacles) == {WallObstacle.DRIVER, WallObstacle.CGROUP_VERSION, WallObstacle.TOOLKIT}
    assert "R615" in wall.obstacles[WallObstacle.DRIVER]
    assert "not cgroup v2" in wall.obstacles[WallObstacle.CGROUP_VERSION]
    assert "nvidia-container-toolkit 1.20.1" in wall.obstacles[WallObstacle.TOOLKIT]


async def test_obstacles_one_by_one(node: sim.SimNode, hardware: Hardware) -> None:
    first, second = uuid(node), uuid(node, 1)
    node.set_memory_limits_supported(first, supported=False)
    await hardware.set_mig_mode(second, enabled=True)
    assert set((await hardware.memory_wall(first)).obstacles) == {WallObstacle.GPU}
    assert set((await hardware.memory_wall(second)).obstacles) == {WallObstacle.MIG_MODE}
    await hardware.set_mig_mode(second, enabled=False)
    assert (await hardware.memory_wall(second)).supported
    (node.sys / "fs/cgroup/cgroup.controllers").unlink()
    assert set((await hardware.memory_wall(second)).obstacles) == {WallObstacle.CGROUP_VERSION}
    (node.sys / "fs/cgroup/cgroup.controllers").touch()
    cdi.write_cdi_spec(node.cdi, node.gpus())
    assert set((await hardware.memory_wall(second)).obstacles) == {WallObstacle.TOOLKIT}


async def test_limit_is_set_changed_and_taken_away(node: sim.SimNode, hardware: Hardware, cgroup: Path) -> None:
    gpu = uuid(node)
    small, large = MemoryLimit(most=GIB), MemoryLimit(guaranteed=GIB, most=4 * GIB)
    assert await hardware.memory_use(gpu, cgroup) is None
    for change in (Change(None, small), Change(small, small), Change(small, large), Change(large, None)):
        assert await hardware.set_memory_limit(gpu, cgroup, change.now) == change
        use = await hardware.memory_use(gpu, cgroup)
        assert use == (MemoryUse(limit=change.now, used=0) if change.now else None)
    assert await hardware.set_memory_limit(gpu, cgroup, None) == Change(None, None)
    # The other GPU was never meant.
    assert await hardware.memory_use(uuid(node, 1), cgroup) is None


async def test_limit_holds_and_what_is_used_is_counted(node: sim.SimNode, hardware: Hardware, cgroup: Path) -> None:
    gpu, limit = uuid(node), MemoryLimit(most=GIB)
    await hardware.set_memory_limit(gpu, cgroup, limit)
    options = cuda.Options(gpu=gpu, memory="512M", cgroup=cgroup)
    with cuda.running(node, options):
        assert await hardware.memory_use(gpu, cgroup) == MemoryUse(limit=limit, used=512 * MIB)
        too_much = cuda.Options(gpu=gpu, memory="513M", cgroup=cgroup)
        with pytest.raises(cuda.CudaError, match="CUDA error 2"), cuda.running(node, too_much):
            pass
        with cuda.running(node, options):
            assert await hardware.memory_use(gpu, cgroup) == MemoryUse(limit=limit, used=GIB)
    assert await hardware.memory_use(gpu, cgroup) == MemoryUse(limit=limit, used=0)


async def test_limit_ends_with_its_cgroup(node: sim.SimNode, hardware: Hardware, cgroup: Path) -> None:
    await hardware.set_memory_limit(uuid(node), cgroup, MemoryLimit(most=GIB))
    os.rmdir(cgroup)  # noqa: PTH106 (blocking, and quick)
    with pytest.raises(HardwareError, match="operating system has blocked"):
        await hardware.memory_use(uuid(node), cgroup)
    # Control groups never have the number of an earlier one, directories may: somebody else takes it.
    os.mkdir(cgroup.with_name("another"))  # noqa: PTH102 (blocking, and quick)
    os.mkdir(cgroup)  # noqa: PTH102 (blocking, and quick)
    assert await hardware.memory_use(uuid(node), cgroup) is None


@pytest.mark.parametrize("limit", [MemoryLimit(guaranteed=2, most=1), MemoryLimit(most=90 * GIB)])
async def test_limit_that_makes_no_sense(
    node: sim.SimNode, hardware: Hardware, cgroup: Path, limit: MemoryLimit
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"GPU {uuid(node)}: nvmlDeviceSetMemoryLimits_v1"):
        await hardware.set_memory_limit(uuid(node), cgroup, limit)
    assert await hardware.memory_use(uuid(node), cgroup) is None


async def test_cgroup_that_does_not_exist(node: sim.SimNode, hardware: Hardware, tmp_path: Path) -> None:
    with pytest.raises(HardwareError, match="operating system has blocked"):
        await hardware.set_memory_limit(uuid(node), tmp_path / "nowhere", MemoryLimit(most=GIB))


async def test_driver_that_does_not_know_limits(tmp_path: Path, cgroup: Path) -> None:
    node = sim.create(tmp_path / "old", "H100-80GB", driver="610")
    async with opened(node) as hardware:
        with pytest.raises(DriverTooOldError, match="install a newer GPU driver"):
            await hardware.set_memory_limit(uuid(node), cgroup, MemoryLimit(most=GIB))
        with pytest.raises(DriverTooOldError):
            await hardware.memory_use(uuid(node), cgroup)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (faults.CallFails("nvmlDeviceSetMemoryLimits_v1", 4), NotPermittedError),
        (faults.CallFails("nvmlDeviceSetMemoryLimits_v1", 3), NotSupportedError),
        (faults.CallLies("nvmlDeviceSetMemoryLimits_v1"), SettingNotAppliedError),
    ],
)
async def test_limit_that_is_not_set(
    node: sim.SimNode, hardware: Hardware, cgroup: Path, fault: faults.Fault, kind: type[HardwareError]
) -> None:
    node.inject(fault)
    with pytest.raises(kind):
        await hardware.set_memory_limit(uuid(node), cgroup, MemoryLimit(most=GIB))
    node.clear()
    assert await hardware.memory_use(uuid(node), cgroup) is None
