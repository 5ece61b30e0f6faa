"""The CDI spec that `nvidia-ctk cdi generate` would have made on the node."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FILE_NAME = "nvidia.com-gpu.json"


def write_cdi_spec(directory: Path, minors: Mapping[str, int]) -> None:
    """`minors` has the minor number of each GPU by UUID, in the order of their indexes."""
    directory.mkdir()
    (directory / FILE_NAME).write_text(json.dumps(_spec(minors), indent=2) + "\n")


def _spec(minors: Mapping[str, int]) -> dict[str, Any]:
    by_index = {str(index): [minor] for index, minor in enumerate(minors.values())}
    by_uuid = {uuid: [minor] for uuid, minor in minors.items()}
    devices = {**by_index, **by_uuid, "all": [*minors.values()]}
    return {
        # The version that every container runtime accepts and that allows device names to begin with a digit.
        "cdiVersion": "0.5.0",
        "kind": "nvidia.com/gpu",
        "devices": [
            {"name": name, "containerEdits": _nodes(f"nvidia{minor}" for minor in numbers)}
            for name, numbers in devices.items()
        ],
        "containerEdits": {
            # As NVIDIA's: keeps their runtime from injecting GPUs a second time.
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            **_nodes(["nvidiactl", "nvidia-uvm"]),
        },
    }


def _nodes(names: Iterable[str]) -> dict[str, Any]:
    """Device nodes for real containers: each is /dev/null, by its number, so that nothing has to exist on the host."""
    null = {"type": "c", "major": 1, "minor": 3, "fileMode": 0o666}
    return {"deviceNodes": [{"path": f"/dev/{name}", **null} for name in names]}
