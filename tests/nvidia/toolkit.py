"""nvidia-ctk on a machine with simulated GPUs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusharing import sim
from nvidia.machine import Machine, as_driver_root

Edits = dict[str, Any]


@dataclass(frozen=True)
class Toolkit:
    """NVIDIA's container toolkit, on a machine whose driver is where `as_driver_root` has put it."""

    tools: Path
    machine: Machine
    node: sim.SimNode
    root: Path

    @classmethod
    def installed(cls, tools: Path, machine: Machine, node: sim.SimNode) -> Toolkit:
        return cls(tools, machine, node, as_driver_root(node))

    def generate(self, output: Path, *options: str) -> dict[str, Edits]:
        """The CDI spec as the service of the toolkit makes it: what each device changes in a container."""
        done = self.machine.run(
            self.tools / "nvidia-ctk", "cdi", "generate", "--mode=nvml", f"--output={output}", "--format=json",
            f"--driver-root={self.root}", f"--dev-root={self.root}",
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
