"""What `create` makes, and the Python side of a node."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.sim.models import parse_gpus

GIB = 1024**3


def test_gpus(node: sim.SimNode) -> None:
    first, second, third = node.gpus()
    assert first == sim.Gpu(
        index=0,
        uuid=first.uuid,
        minor=0,
        name="NVIDIA H100 80GB HBM3",
        memory=81559 * 1024**2,
        compute_mode=sim.ComputeMode.DEFAULT,
        timeslice=sim.Timeslice.DEFAULT,
        processes=(),
        mig_mode=sim.MigMode(current=False, pending=False),
        gpu_instances=(),
        lost=False,
    )
    assert third.mig_mode is None
    assert (second.index, second.minor, third.name) == (1, 1, "NVIDIA L4")
    assert sim.SimNode.open(node.directory).gpus() == node.gpus()


def test_seed_decides_the_uuids(node: sim.SimNode, tmp_path: Path) -> None:
    same = sim.create(tmp_path / "same", "H100-80GB:2,L4:1", seed="tests")
    other = sim.create(tmp_path / "other", "H100-80GB:2,L4:1", seed="others")
    unseeded = sim.create(tmp_path / "unseeded", "H100-80GB:2,L4:1")
    uuids = [[gpu.uuid for gpu in each.gpus()] for each in (node, same, other, unseeded)]
    assert uuids[0] == uuids[1]
    assert len({uuid for each in uuids for uuid in each}) == 9
    assert all(uuid.startswith("GPU-") and len(uuid) == 40 for each in uuids for uuid in each)


@pytest.mark.parametrize(
    ("gpus", "models"),
    [
        ("L4", ["L4"]),
        ("H100-80GB:2,A30:1", ["H100-80GB", "H100-80GB", "A30"]),
        ("A100-40GB:1, L4", ["A100-40GB", "L4"]),
    ],
)
def test_parse_gpus(gpus: str, models: list[str]) -> None:
    assert [model.name for model in parse_gpus(gpus)] == models


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        ("V100:2", "unknown GPU model 'V100': known are A30, A100-40GB, .*, L4, T4"),
        ("", "unknown GPU model ''"),
        ("L4,", "unknown GPU model ''"),
        ("L4:0", "'L4:0' needs a positive number"),
        ("L4:many", "'L4:many' needs a positive number"),
        ("L4:33", "at most 32 GPUs"),
    ],
)
def test_impossible_gpus(tmp_path: Path, gpus: str, message: str) -> None:
    with pytest.raises(sim.SimError, match=message):
        sim.create(tmp_path / "node", gpus)
    assert not (tmp_path / "node").exists()


def test_nothing_is_overwritten(node: sim.SimNode) -> None:
    with pytest.raises(sim.SimError, match="is not empty"):
        sim.create(node.directory, "L4")
    assert len(node.gpus()) == 3


def test_processes(node: sim.SimNode) -> None:
    uuid = node.gpus()[2].uuid
    node.start_process(uuid, 1, 20 * GIB)
    node.start_process(uuid, 2, 1 * GIB, sim.ProcessKind.MPS_CLIENT)
    with pytest.raises(sim.SimError, match="has only"):
        node.start_process(uuid, 3, 2 * GIB)
    with pytest.raises(sim.SimError, match="already runs"):
        node.start_process(uuid, 1, 1)
    node.stop_process(uuid, 1)
    assert node.gpus()[2].processes == (sim.Process(pid=2, memory=1 * GIB, kind=sim.ProcessKind.MPS_CLIENT),)
    with pytest.raises(sim.SimError, match="no process 1"):
        node.stop_process(uuid, 1)
    with pytest.raises(sim.SimError, match="has no GPU GPU-unknown"):
        node.start_process("GPU-unknown", 1, 1)


def test_process_slots_end(node: sim.SimNode) -> None:
    uuid = node.gpus()[0].uuid
    for pid in range(1, 129):
        node.start_process(uuid, pid, 1)
    with pytest.raises(sim.SimError, match="more than 128 processes"):
        node.start_process(uuid, 129, 1)


def test_settings(node: sim.SimNode) -> None:
    uuid = node.gpus()[0].uuid
    node.set_timeslice(uuid, sim.Timeslice.LONG)
    node.set_compute_mode(uuid, sim.ComputeMode.PROHIBITED)
    gpu = node.gpus()[0]
    assert (gpu.timeslice, gpu.compute_mode) == (sim.Timeslice.LONG, sim.ComputeMode.PROHIBITED)
    node.set_timeslice(uuid, None)
    assert node.gpus()[0].timeslice is None
    node.set_timeslice(uuid, sim.Timeslice.DEFAULT)
    assert node.gpus()[0].timeslice is sim.Timeslice.DEFAULT


def test_sysfs(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "H100-80GB:3,L4")
    links = sorted((node.sys / "bus/pci/devices").iterdir())
    assert [link.name for link in links] == ["0000:1b:00.0", "0000:22:00.0", "0000:29:00.0", "0000:30:00.0"]
    assert all(link.is_symlink() and not link.readlink().is_absolute() for link in links)
    devices = [link.resolve(strict=True) for link in links]
    assert devices[0] == node.sys / "devices/pci0000:1a/0000:1a:00.0/0000:1b:00.0"
    assert [(device / "numa_node").read_text() for device in devices] == ["0\n", "0\n", "1\n", "1\n"]
    assert [(device / "device").read_text() for device in devices] == ["0x2330\n"] * 3 + ["0x27b8\n"]
    assert {(device / "vendor").read_text() for device in devices} == {"0x10de\n"}


def test_largest_node_has_valid_addresses(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "node", "L4:32")
    links = sorted(link.name for link in (node.sys / "bus/pci/devices").iterdir())
    assert len(links) == 32
    assert links[-1] == "0000:f4:00.0"


def test_cdi_spec(node: sim.SimNode) -> None:
    spec = json.loads((node.cdi / "nvidia.com-gpu.json").read_text())
    null = {"type": "c", "major": 1, "minor": 3, "fileMode": 0o666}
    nodes = [{"path": f"/dev/nvidia{minor}", **null} for minor in range(3)]

    assert (spec["cdiVersion"], spec["kind"]) == ("0.5.0", "nvidia.com/gpu")
    assert spec["containerEdits"] == {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "deviceNodes": [{"path": "/dev/nvidiactl", **null}, {"path": "/dev/nvidia-uvm", **null}],
    }
    devices = {device["name"]: device["containerEdits"]["deviceNodes"] for device in spec["devices"]}
    expected = {"all": nodes}
    for gpu in node.gpus():
        expected[gpu.uuid] = expected[str(gpu.index)] = [nodes[gpu.minor]]
    assert devices == expected
    assert len(spec["devices"]) == 7


def test_environment_file(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "with space", "L4")
    script = f". '{node.directory}/env'; nvidia-smi -L; echo $GPUSHARING_SIM_STATE; echo $LD_LIBRARY_PATH"
    result = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == [
        f"GPU 0: NVIDIA L4 (UUID: {node.gpus()[0].uuid})",
        str(node.state),
        str(node.library.parent),
    ]


def test_environment_of_programs(node: sim.SimNode) -> None:
    environment = node.environment({"PATH": "/bin", "LANG": "C"})
    assert environment == {
        "LANG": "C",
        "PATH": f"{node.directory}/bin:/bin",
        "LD_LIBRARY_PATH": f"{node.directory}/lib",
        "GPUSHARING_SIM_STATE": f"{node.directory}/state",
    }


def test_development_link(node: sim.SimNode) -> None:
    assert (node.library.parent / "libnvidia-ml.so").readlink() == Path("libnvidia-ml.so.1")
    assert node.library.readlink() == Path("libnvidia-ml.so.580.173.02")
