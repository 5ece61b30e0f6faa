"""nvidia-ctk makes CDI specs of the devices that our inventory has, and of no others."""

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gpusharing import sim
from gpusharing.nvidia.cdi_specs import CdiSpecs, nvidia_device
from gpusharing.nvidia.facts import GpuInstance, MigPlace
from gpusharing.sim import cdi
from nvidia.nodes import opened
from toolkit import nodes
from toolkit.machine import machine
from toolkit.toolkit import Edits, Toolkit

COMMON = ""
"""What a container gets with any device."""

MAJORS_OF = {
    "nvidia": "nvidia",
    "nvidiactl": "nvidiactl",
    "nvidia-modeset": "nvidia",
    "nvidia-uvm": "nvidia-uvm",
    "nvidia-uvm-tools": "nvidia-uvm",
    "nvidia-caps/nvidia-cap": "nvidia-caps",
}
"""What the kernel calls the drivers of device nodes."""

Install = Callable[[sim.SimNode], Toolkit]


@pytest.fixture
def install(tools: Path) -> Iterator[Install]:
    """Gives a node a machine of its own with NVIDIA's toolkit."""
    with ExitStack() as stack:
        yield lambda node: Toolkit(tools, stack.enter_context(machine(node)), node)


@pytest.mark.parametrize("layout", nodes.LAYOUTS)
async def test_spec_has_the_devices_of_the_inventory(tmp_path: Path, install: Install, layout: str) -> None:
    node = nodes.create(tmp_path / "node", layout)
    expected = await _devices_of_inventory(node)
    spec = install(node).generate(tmp_path / "spec/nvidia.json")
    by_name = {name: _paths(edits) for name, edits in spec.items()}
    by_uuid = {name: paths for name, paths in by_name.items() if name.startswith(("GPU-", "MIG-"))}
    assert by_uuid == expected
    assert {name: by_name[name] for name in _indexes(node)} == {
        name: expected[uuid] for name, uuid in _indexes(node).items()
    }
    everything = {path for paths in expected.values() for path in paths}
    assert set(by_name) == {COMMON, *expected, *_indexes(node), *({"all"} if expected else ())}
    assert set(by_name.get("all", ())) == everything
    assert set(by_name[COMMON]) == {f"/dev/nvidia{name}" for name in ("ctl", "-modeset", "-uvm", "-uvm-tools")}


@pytest.mark.parametrize("layout", nodes.LAYOUTS)
def test_device_nodes_are_those_of_the_node(tmp_path: Path, install: Install, layout: str) -> None:
    """With the numbers that the driver has given them."""
    node = nodes.create(tmp_path / "node", layout)
    majors = {name: int(number) for number, name in re.findall(r"(\d+) (\S+)", (node.proc / "devices").read_text())}
    for edits in install(node).generate(tmp_path / "spec/nvidia.json").values():
        for device in edits["deviceNodes"]:
            # Go leaves out zeros.
            major, minor = device["major"], device.get("minor", 0)
            host = Path(device["hostPath"])
            assert host == node.dev / Path(device["path"]).relative_to("/dev")
            assert os.makedev(major, minor) == host.stat().st_rdev
            assert device["fileMode"] == host.stat().st_mode & 0o777
            name = device["path"].removeprefix("/dev/")
            kind = name.rstrip("0123456789")
            assert major == majors[MAJORS_OF[kind]]
            assert name in {kind, f"{kind}{minor}"}


@pytest.mark.parametrize("layout", nodes.LAYOUTS)
async def test_list_has_each_device(tmp_path: Path, install: Install, layout: str) -> None:
    node = nodes.create(tmp_path / "node", layout)
    toolkit = install(node)
    spec = toolkit.generate(tmp_path / "spec/nvidia.json")
    listed = toolkit.listed(tmp_path / "spec")
    assert sorted(listed) == sorted(f"nvidia.com/gpu={name}" for name in spec if name != COMMON)
    assert {nvidia_device(uuid) for uuid in await _devices_of_inventory(node)} <= set(listed)


@pytest.mark.parametrize(
    ("wanted", "indexes"),
    [
        (["1"], ["1"]),
        (["0:1"], ["0:1"]),
        (["3", "2:6"], ["3", "2:6"]),
        (["all"], ["0:0", "0:1", "1", *(f"2:{index}" for index in range(7)), "3"]),
    ],
)
def test_chosen_devices(tmp_path: Path, install: Install, wanted: list[str], indexes: list[str]) -> None:
    """By index, and the same ones by UUID."""
    node = nodes.create(tmp_path / "node", "cut")
    toolkit = install(node)
    uuids = _indexes(node)
    for names in (wanted, [uuids.get(name, name) for name in wanted]):
        options = ["--no-all-device", "--device-name-strategy=uuid", *(f"--device-id={name}" for name in names)]
        spec = toolkit.generate(tmp_path / "spec/nvidia.json", *options)
        assert set(spec) == {COMMON, *(uuids[index] for index in indexes)}


async def test_instances_come_and_go(tmp_path: Path, install: Install) -> None:
    node = nodes.create(tmp_path / "node", "with GPUs in MIG mode that have no MIG device")
    toolkit = install(node)
    gpu, upper_half = node.gpus()[0].uuid, MigPlace(9, 4)
    without = set(toolkit.generate(tmp_path / "spec/nvidia.json"))
    async with opened(node) as hardware:
        for _ in range(2):
            made = (await hardware.create_mig_instance(gpu, upper_half)).now
            assert made is not None
            assert set(toolkit.generate(tmp_path / "spec/nvidia.json")) == without | {"0:0", made.uuid}
            await hardware.destroy_mig_instance(gpu, upper_half)
            assert set(toolkit.generate(tmp_path / "spec/nvidia.json")) == without


@pytest.mark.parametrize("driver", ["580", "615"])
async def test_agent_finds_what_it_looks_for(tmp_path: Path, install: Install, driver: str) -> None:
    """In the real spec: the device of each whole GPU, and the hook that sets memory limits, which has no MIG device."""
    node = nodes.create(tmp_path / "node", "cut", driver=driver)
    spec = install(node).generate(tmp_path / "spec/nvidia.json")
    specs = CdiSpecs((tmp_path / "spec",))
    for uuid in await _devices_of_inventory(node):
        assert specs.has(nvidia_device(uuid))
        hooks = specs.hooks_of(nvidia_device(uuid))
        assert ("apply-cuda-memory-limits" in hooks, uuid in hooks) == (uuid.startswith("GPU-"),) * 2
        assert len(spec[uuid].get("hooks", ())) == uuid.startswith("GPU-")


@pytest.mark.parametrize("layout", nodes.LAYOUTS)
def test_the_simulations_own_spec_is_like_it(tmp_path: Path, install: Install, layout: str) -> None:
    node = nodes.create(tmp_path / "node", layout)
    # The simulation writes it when the driver is installed, as a machine's service does, and not when MIG changes.
    cdi.write_cdi_spec(node.cdi, node.gpus())
    ours = json.loads((node.cdi / cdi.FILE_NAME).read_text())
    theirs = install(node).generate(tmp_path / "spec/nvidia.json")
    del theirs[COMMON]
    assert {device["name"]: sorted(_paths(device["containerEdits"])) for device in ours["devices"]} == {
        name: sorted(_paths(edits)) for name, edits in theirs.items()
    }


async def _devices_of_inventory(node: sim.SimNode) -> dict[str, list[str]]:
    """For each UUID the device nodes that a container needs, as our hardware layer says it."""
    devices = {}
    async with opened(node) as hardware:
        for gpu in (await hardware.inventory()).gpus:
            whole = f"/dev/nvidia{gpu.board.minor}"
            if not (gpu.mig_mode and gpu.mig_mode.current):
                devices[gpu.board.uuid] = [whole]
            for part in _parts(gpu.instances):
                made = await hardware.mig_device_nodes(gpu.board.uuid, part)
                assert not made.changed, "the driver has made them already"
                devices[str(part.uuid)] = [whole, *(device.path for device in made.now)]
    return devices


def _parts(instances: tuple[GpuInstance, ...]) -> Iterator[GpuInstance]:
    """Each MIG device as if it were the only one of its GPU instance."""
    for instance in instances:
        for part in instance.compute_instances:
            yield dataclasses.replace(instance, compute_instances=(part,))


def _indexes(node: sim.SimNode) -> dict[str, str]:
    """The UUID for each index, as NVML counts them."""
    indexes: dict[str, str] = {}
    for gpu in node.gpus():
        if gpu.mig_mode is None or not gpu.mig_mode.current:
            indexes[str(gpu.index)] = gpu.uuid
        for instance in gpu.gpu_instances:
            indexes |= {f"{gpu.index}:{part.index}": part.uuid for part in instance.compute_instances}
    return indexes


def _paths(edits: Edits) -> list[str]:
    nodes_of_device: list[dict[str, Any]] = edits["deviceNodes"]
    return [device["path"] for device in nodes_of_device]
