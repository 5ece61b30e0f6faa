"""nvidia-ctk on a machine with simulated GPUs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusharing import sim
from toolkit.machine import Machine

Edits = dict[str, Any]


@dataclass(frozen=True)
class Toolkit:
    """NVIDIA's container toolkit, on a machine with the node's driver."""

    tools: Path
    machine: Machine
    node: sim.SimNode

    def generate(self, output: Path, *options: str) -> dict[str, Edits]:
        """The CDI spec as the service of the toolkit makes it: what each device changes in a container."""
        done = self.machine.run(
            self.tools / "nvidia-ctk", "cdi", "generate", "--mode=nvml", f"--output={output}", "--format=json",
            f"--driver-root={self.node.driver_root}", f"--dev-root={self.node.directory}",
            f"--nvidia-cdi-hook-path={self.tools / 'nvidia-cdi-hook'}", *options,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        spec = json.loads(output.read_text())
        assert (spec["kind"], spec["cdiVersion"]) == ("nvidia.com/gpu", "0.5.0")
        return {"": spec["containerEdits"], **{each["name"]: each["containerEdits"] for each in spec["devices"]}}

    def listed(self, directory: Path) -> list[str]:
        done = self.machine.run(self.tools / "nvidia-ctk", "cdi", "list", f"--spec-dir={directory}")
        assert done.returncode == 0, done.stderr
        return done.stdout.split()
