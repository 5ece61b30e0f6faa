"""The GPUs of a node as nvidia-ml-py, go-nvlib and our own inventory see them, all in the words of device-walk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpusharing import sim
from gpusharing.core.devices.gpu import Engines, MigProfile
from gpusharing.nvidia.facts import ComputeInstance, GpuInstance, GpuState, Span
from nvidia.nodes import opened

View = list[dict[str, Any]]

_WALK = Path(__file__).parent / "programs" / "nvidia_ml_py_walk.py"


def of_go_nvlib(node: sim.SimNode, tools: Path) -> View:
    return _printed([tools / "device-walk"], node)


def of_nvidia_ml_py(node: sim.SimNode) -> View:
    return _printed([sys.executable, _WALK], node)


async def of_inventory(node: sim.SimNode) -> View:
    async with opened(node) as hardware:
        found = await hardware.inventory()
    assert found.broken == ()
    assert {gpu.unknown for gpu in found.gpus} == {()}
    return [_gpu(index, gpu) for index, gpu in enumerate(found.gpus)]


def _printed(command: list[str | Path], node: sim.SimNode) -> View:
    done = subprocess.run(
        command, env=node.environment(), capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    view: View = json.loads(done.stdout)
    return view


def _gpu(index: int, gpu: GpuState) -> dict[str, Any]:
    board = gpu.board
    profiles = {profile.id: profile for profile in board.mig.profiles} if board.mig else {}
    return {
        "index": index,
        "uuid": board.uuid,
        "minor": board.minor,
        "productName": board.product_name,
        "brand": board.brand,
        "architecture": board.architecture,
        "memoryMiB": board.memory_mib,
        "computeCapability": "{}.{}".format(*board.compute_capability),
        "pciBusID": board.pci_bus_id,
        "addressingMode": board.addressing_mode,
        "coherent": board.addressing_mode == "ATS",
        "migCapable": board.mig is not None,
        "migEnabled": gpu.mig_mode is not None and gpu.mig_mode.current,
        "profiles": [_profile(profile) for profile in sorted(profiles.values(), key=lambda profile: profile.id)],
        "migDevices": [
            _mig_device(profiles[instance.profile_id], instance, part)
            for instance in gpu.instances
            for part in instance.compute_instances
        ],
    }


def _profile(profile: MigProfile) -> dict[str, Any]:
    return {
        "id": profile.id,
        "name": profile.name,
        "slices": profile.slices,
        "memoryMiB": profile.memory_mib,
        "engines": _engines(profile.engines),
        "placements": [{"start": start, "size": profile.size} for start in profile.starts],
    }


def _engines(engines: Engines) -> dict[str, int]:
    return {
        "multiprocessors": engines.multiprocessors,
        "copyEngines": engines.copy_engines,
        "decoders": engines.decoders,
        "encoders": engines.encoders,
        "jpegEngines": engines.jpeg_engines,
        "ofaEngines": engines.ofa_engines,
    }


def _mig_device(profile: MigProfile, instance: GpuInstance, part: ComputeInstance) -> dict[str, Any]:
    share = "" if part.span.size == profile.slices else f"{part.span.size}c."
    return {
        "uuid": part.uuid,
        "profile": f"{share}{profile.name}",
        "memoryMiB": profile.memory_mib,
        "gpuInstance": _instance(instance.id, instance.profile_id, instance.span),
        "computeInstance": _instance(part.id, part.profile_id, part.span),
    }


def _instance(number: int, profile_id: int, span: Span) -> dict[str, Any]:
    return {"id": number, "profileID": profile_id, "place": {"start": span.start, "size": span.size}}
