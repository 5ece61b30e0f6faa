"""The device nodes of MIG instances, which containers need."""

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gpusharing import sim
from gpusharing.nvidia.errors import CapabilityError
from gpusharing.nvidia.facts import DeviceNode, GpuInstance, MigPlace
from gpusharing.nvidia.hardware import Hardware
from gpusharing.sim import faults
from nvidia.nodes import opened, uuid


@pytest.fixture
def node(tmp_path: Path) -> sim.SimNode:
    return sim.create(tmp_path / "node", "A100-80GB:2")


@pytest_asyncio.fixture
async def hardware(node: sim.SimNode) -> AsyncIterator[Hardware]:
    async with opened(node) as hardware:
        await hardware.set_mig_mode(uuid(node, 1), enabled=True)
        yield hardware


@pytest_asyncio.fixture
async def instance(node: sim.SimNode, hardware: Hardware) -> GpuInstance:
    made = (await hardware.create_mig_instance(uuid(node, 1), MigPlace(9, 4))).now
    assert made is not None
    return made


@pytest.fixture
def may_make_nodes(tmp_path: Path) -> None:
    try:
        os.mknod(tmp_path / "probe", stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("device nodes cannot be made here")


def numbers(instance: GpuInstance, gpu_minor: int) -> tuple[int, int]:
    """As NVIDIA numbers them."""
    of_gpu_instance = 3 + gpu_minor * 135 + instance.id * 9
    return of_gpu_instance, of_gpu_instance + 1 + instance.compute_instances[0].id


def expected(minors: tuple[int, ...], major: int = 236) -> tuple[DeviceNode, ...]:
    return tuple(
        DeviceNode(path=f"/dev/nvidia-caps/nvidia-cap{minor}", major=major, minor=minor, mode=0o400) for minor in minors
    )


@pytest.mark.usefixtures("may_make_nodes")
async def test_nodes_that_are_there_and_nodes_that_are_made(
    node: sim.SimNode, hardware: Hardware, instance: GpuInstance
) -> None:
    nodes = expected(numbers(instance, 1))
    change = await hardware.mig_device_nodes(uuid(node, 1), instance)
    assert (change.found, change.now) == (nodes, nodes)

    path = node.dev / "nvidia-caps" / f"nvidia-cap{nodes[1].minor}"
    path.unlink()
    change = await hardware.mig_device_nodes(uuid(node, 1), instance)
    assert (change.found, change.now) == (nodes[:1], nodes)
    status = path.stat()
    assert (stat.S_ISCHR(status.st_mode), stat.S_IMODE(status.st_mode)) == (True, 0o400)
    assert status.st_rdev == os.makedev(236, nodes[1].minor)
    assert not (await hardware.mig_device_nodes(uuid(node, 1), instance)).changed


@pytest.mark.usefixtures("may_make_nodes")
async def test_node_of_a_gpu_is_that_of_the_simulated_machine(node: sim.SimNode, hardware: Hardware) -> None:
    for index, gpu in enumerate(node.gpus()):
        found = await hardware.device_node(uuid(node, index))
        assert found.path == f"/dev/nvidia{gpu.minor}"
        assert (node.dev / f"nvidia{gpu.minor}").stat().st_rdev == os.makedev(found.major, found.minor)


@pytest.mark.usefixtures("may_make_nodes")
async def test_major_number_is_that_of_the_module_that_is_loaded_now(
    node: sim.SimNode, hardware: Hardware, instance: GpuInstance
) -> None:
    devices = node.proc / "devices"
    devices.chmod(0o644)
    devices.write_text(devices.read_text().replace("236 nvidia-caps", "511 nvidia-caps"))
    change = await hardware.mig_device_nodes(uuid(node, 1), instance)
    assert (change.found, change.now) == ((), expected(numbers(instance, 1), major=511))
    minor = change.now[0].minor
    assert (node.dev / f"nvidia-caps/nvidia-cap{minor}").stat().st_rdev == os.makedev(511, minor)


@pytest.mark.usefixtures("may_make_nodes")
async def test_gpu_whose_minor_number_changed(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "A100-80GB:2")
    async with opened(node) as hardware:
        node.inject(faults.MinorsSwap(uuid(node)))
        await hardware.set_mig_mode(uuid(node), enabled=True)
        made = (await hardware.create_mig_instance(uuid(node), MigPlace(19, 0))).now
        assert made is not None
        nodes = (await hardware.mig_device_nodes(uuid(node), made)).now
    assert tuple(one.minor for one in nodes) == numbers(made, 1)


async def test_instance_that_is_gone(node: sim.SimNode, hardware: Hardware, instance: GpuInstance) -> None:
    await hardware.destroy_mig_instance(uuid(node, 1), instance.place)
    with pytest.raises(CapabilityError, match=f"gi{instance.id}/access.*run `nvidia-smi -L` as root"):
        await hardware.mig_device_nodes(uuid(node, 1), instance)


async def test_module_that_is_not_loaded(node: sim.SimNode, hardware: Hardware, instance: GpuInstance) -> None:
    devices = node.proc / "devices"
    devices.chmod(0o644)
    devices.write_text("Character devices:\n  1 mem\n")
    with pytest.raises(CapabilityError, match="has no nvidia-caps: is the module loaded"):
        await hardware.mig_device_nodes(uuid(node, 1), instance)


async def test_kernel_that_numbers_no_capabilities(
    node: sim.SimNode, hardware: Hardware, instance: GpuInstance
) -> None:
    (node.proc / "driver/nvidia-caps/mig-minors").unlink()
    with pytest.raises(CapabilityError, match=r"cannot be read: .*mig-minors"):
        await hardware.mig_device_nodes(uuid(node, 1), instance)
