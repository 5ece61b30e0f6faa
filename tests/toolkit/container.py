"""A container as runtimes make it: a cgroup, a first process in it, and the hooks of the devices that it asks for."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusharing import sim
from gpusharing.sim import cuda
from toolkit.machine import Machine
from toolkit.toolkit import Edits


@dataclass(frozen=True)
class Container:
    machine: Machine
    cgroup: str
    pid: int
    bundle: Path

    @property
    def cgroup_from_outside(self) -> Path:
        return self.machine.seen_from_outside(self.cgroup)

    @property
    def id(self) -> str:
        return self.bundle.name

    def state(self) -> dict[str, Any]:
        """What runtimes tell hooks."""
        state = {"ociVersion": "1.2.0", "id": self.id, "status": "creating"}
        return {**state, "pid": self.pid, "bundle": str(self.bundle)}

    def run_hooks(self, edits: Edits) -> str | None:
        """As runc does when it has made the container and not started its program; what the first failure says."""
        state = self.state()
        for hook in edits.get("hooks", ()):
            if hook["hookName"] == "createRuntime":
                environment = dict(line.split("=", 1) for line in hook.get("env", ()))
                words = (hook["path"], *hook["args"][1:])
                done = self.machine.run(*words, stdin=json.dumps(state), environment=environment)
                if done.returncode != 0:
                    return done.stderr
        return None

    def start(self, node: sim.SimNode, options: cuda.Options) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.machine.command(cuda.command(node, options), cgroup=self.cgroup),
            env=node.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@contextmanager
def container(machine: Machine, bundle: Path, environment: Mapping[str, str]) -> Iterator[Container]:
    write_bundle(bundle, environment)
    with machine.cgroup() as cgroup, _first_process(machine, cgroup) as pid:
        yield Container(machine, cgroup, pid, bundle)


def write_bundle(bundle: Path, environment: Mapping[str, str]) -> Path:
    """What runtimes know of a container."""
    bundle.mkdir()
    process = {"env": [f"{name}={value}" for name, value in environment.items()], "args": ["/bin/true"], "cwd": "/"}
    (bundle / "config.json").write_text(json.dumps({"ociVersion": "1.2.0", "process": process}))
    return bundle


@contextmanager
def _first_process(machine: Machine, cgroup: str) -> Iterator[int]:
    command: Sequence[str] = machine.command(["sh", "-c", "echo ready; exec sleep infinity"], cgroup=cgroup)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", "no process could be put into a cgroup"
            yield process.pid
        finally:
            process.kill()
