"""The CDI spec that `nvidia-ctk cdi generate` would have made on the node.

NVIDIA's service makes it at boot and when the driver is installed, and not when MIG changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from gpusharing.sim.devices import compute_instance_capability, gpu_instance_capability
from gpusharing.sim.gpus import Gpu

FILE_NAME = "nvidia.com-gpu.json"
# What NVIDIA's GPU operator has written for its own pods.
MANAGEMENT_FILE_NAME = "management.nvidia.com-gpu.json"


def write_cdi_spec(directory: Path, gpus: Sequence[Gpu]) -> None:
    _write(directory / FILE_NAME, _spec(gpus))


def write_management_spec(directory: Path, gpus: Sequence[Gpu]) -> None:
    """For whoever may have all that there is."""
    spec = _spec(gpus)
    everything = [device for device in spec["devices"] if device["name"] == "all"]
    _write(directory / MANAGEMENT_FILE_NAME, {**spec, "kind": "management.nvidia.com/gpu", "devices": everything})


def _write(path: Path, spec: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    aside = path.with_name(f"{path.name}.new")
    aside.write_text(json.dumps(spec, indent=2) + "\n")
    aside.rename(path)


def _spec(gpus: Sequence[Gpu]) -> dict[str, Any]:
    devices = dict(_devices(gpus))
    # In the order of their indexes, each once: every device has an index and a UUID.
    everything = {node: None for nodes in devices.values() for node in nodes}
    return {
        # The version that every container runtime accepts and that allows device names to begin with a digit.
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [
            {"name": name, "containerEdits": _nodes(nodes)} for name, nodes in {**devices, "all": [*everything]}.items()
        ],
        "containerEdits": {
            # As NVIDIA's: keeps their runtime from injecting GPUs a second time.
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            **_nodes(["nvidiactl", "nvidia-uvm"]),
        },
    }


def _devices(gpus: Sequence[Gpu]) -> Iterator[tuple[str, list[str]]]:
    """Their names and device nodes. A GPU in MIG mode is no device, only its MIG devices are."""
    for gpu in gpus:
        whole = f"nvidia{gpu.minor}"
        if gpu.mig_mode is None or not gpu.mig_mode.current:
            yield str(gpu.index), [whole]
            yield gpu.uuid, [whole]
        for gpu_instance in gpu.gpu_instances:
            for device in gpu_instance.compute_instances:
                capabilities = (
                    gpu_instance_capability(gpu.minor, gpu_instance.id),
                    compute_instance_capability(gpu.minor, gpu_instance.id, device.id),
                )
                nodes = [whole, *(f"nvidia-caps/nvidia-cap{number}" for number in capabilities)]
                yield f"{gpu.index}:{device.index}", nodes
                yield device.uuid, nodes


def _nodes(names: Iterable[str]) -> dict[str, Any]:
    """Device nodes for real containers: each is /dev/null, by its number, so that nothing has to exist on the host."""
    null = {"type": "c", "major": 1, "minor": 3, "fileMode": 0o666}
    return {"deviceNodes": [{"path": f"/dev/{name}", **null} for name in names]}
