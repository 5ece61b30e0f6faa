"""What unmodified nvidia-ml-py sees, in interpreters of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpusharing import sim

RunProgram = Callable[..., Any]

MIB = 1024 * 1024
NO_INSTANCE = 0xFFFFFFFF


def test_inventory(node: sim.SimNode, run_program: RunProgram) -> None:
    report = run_program("inventory.py", env=node.environment())

    assert report["driver"] == "580.173.02"
    assert report["nvml"] == "13.580.173.02"
    assert report["cuda"] == [13000, 13000]
    h100, second_h100, l4 = report["gpus"]
    uuid = node.gpus()[0].uuid
    assert h100.pop("serial").isdecimal()
    assert h100 == {
        "index": 0,
        "index by uuid": 0,
        "index by bus id": 0,
        "uuid": uuid,
        "name": "NVIDIA H100 80GB HBM3",
        "brand": 14,
        "architecture": 9,
        "compute capability": [9, 0],
        "minor": 0,
        "bus id": "00000000:1B:00.0",
        "legacy bus id": "0000:1B:00.0",
        "pci": [0, 0x1B, 0, 0x233010DE, 0x16C110DE],
        "memory": [81559 * MIB, 81008 * MIB, 551 * MIB],
        "memory v2": [81559 * MIB, 551 * MIB, 81008 * MIB, 0],
        "compute mode": 0,
        "persistence mode": 1,
        "virtualization mode": 0,
        "addressing mode": 1,
        "compute": [],
        "graphics": [],
        "mps": [],
    }
    assert second_h100["index by uuid"] == second_h100["index by bus id"] == second_h100["minor"] == 1
    assert (l4["name"], l4["architecture"], l4["compute capability"]) == ("NVIDIA L4", 8, [8, 9])
    assert len({gpu[key] for gpu in report["gpus"] for key in ("uuid", "bus id")}) == 6


def test_every_model(tmp_path: Path, run_program: RunProgram) -> None:
    node = sim.create(tmp_path / "all", ",".join(sim.MODELS))
    report = run_program("inventory.py", env=node.environment())
    assert [(gpu["name"], gpu["memory"][0] // MIB) for gpu in report["gpus"]] == [
        ("NVIDIA A30", 24576),
        ("NVIDIA A100-SXM4-40GB", 40960),
        ("NVIDIA A100-SXM4-80GB", 81920),
        ("NVIDIA H100 80GB HBM3", 81559),
        ("NVIDIA H100 NVL", 95830),
        ("NVIDIA H200", 143771),
        ("NVIDIA B200", 183359),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887),
        ("NVIDIA L4", 23034),
        ("Tesla T4", 15360),
    ]


def test_absolute_path_needs_no_environment(node: sim.SimNode, run_program: RunProgram) -> None:
    by_path = run_program("inventory.py", str(node.library))
    assert by_path == run_program("inventory.py", env=node.environment())


def test_library_is_found_through_a_symlink(node: sim.SimNode, tmp_path: Path, run_program: RunProgram) -> None:
    link = tmp_path / "elsewhere.so"
    link.symlink_to(node.library)
    assert run_program("inventory.py", str(link))["gpus"][0]["uuid"] == node.gpus()[0].uuid


def test_environment_variable_names_another_node(node: sim.SimNode, tmp_path: Path, run_program: RunProgram) -> None:
    other = sim.create(tmp_path / "other", "A30")
    environment = {**os.environ, "GPUSHARING_SIM_STATE": str(other.state)}
    report = run_program("inventory.py", str(node.library), env=environment)
    assert [gpu["name"] for gpu in report["gpus"]] == ["NVIDIA A30"]


def test_errors(node: sim.SimNode, run_program: RunProgram) -> None:
    assert run_program("errors.py", env=node.environment()) == {
        "before init": "NVMLError_Uninitialized: Uninitialized",
        "index": "NVMLError_InvalidArgument: Invalid Argument",
        "uuid": "NVMLError_NotFound: Not Found",
        "bus id": "NVMLError_NotFound: Not Found",
        "no bus id": "NVMLError_InvalidArgument: Invalid Argument",
        "mig mode": "[0, 0]",
        "mig mode of an L4": "NVMLError_NotSupported: Not Supported",
        "numa node": "NVMLError_NotSupported: Not Supported",
        "removed compute mode": "NVMLError_NotSupported: Not Supported",
        "unknown compute mode": "NVMLError_InvalidArgument: Invalid Argument",
        "memory version": "NVMLError_ArgumentVersionMismatch: Argument Version Mismatch",
        "absent function": "NVMLError_FunctionNotFound: Function Not Found",
        "after shutdown": "NVMLError_Uninitialized: Uninitialized",
        "one shutdown too many": "NVMLError_Uninitialized: Uninitialized",
    }


def test_processes(node: sim.SimNode, run_program: RunProgram) -> None:
    uuid = node.gpus()[0].uuid
    node.start_process(uuid, 100, 1000 * MIB)
    node.start_process(uuid, 101, 10 * MIB)
    node.start_process(uuid, 102, 300 * MIB, sim.ProcessKind.MPS_CLIENT)
    node.start_process(uuid, 103, 8 * MIB, sim.ProcessKind.GRAPHICS)
    node.stop_process(uuid, 101)

    gpu, neighbour, _ = run_program("inventory.py", env=node.environment())["gpus"]

    assert gpu["compute"] == [[100, 1000 * MIB, NO_INSTANCE, NO_INSTANCE]]
    assert gpu["mps"] == [[102, 300 * MIB, NO_INSTANCE, NO_INSTANCE]]
    assert gpu["graphics"] == [[103, 8 * MIB, NO_INSTANCE, NO_INSTANCE]]
    assert gpu["memory v2"] == [81559 * MIB, 551 * MIB, 79700 * MIB, 1308 * MIB]
    assert gpu["memory"] == [81559 * MIB, 79700 * MIB, 1859 * MIB]
    assert neighbour["compute"] == neighbour["mps"] == []


@pytest.mark.usefixtures("root")
def test_compute_mode_is_seen_by_other_processes(node: sim.SimNode, run_program: RunProgram) -> None:
    assert run_program("set_compute_mode.py", "3", env=node.environment()) == 0
    assert [gpu["compute mode"] for gpu in run_program("inventory.py", env=node.environment())["gpus"]] == [3, 0, 0]
    assert node.gpus()[0].compute_mode is sim.ComputeMode.EXCLUSIVE_PROCESS
