"""A machine with simulated GPUs, NVIDIA's toolkit, and our walls."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusharing import sim
from gpusharing.agent.walls.directories import WallDirectories
from gpusharing.agent.walls.use import memory_uses
from gpusharing.agent.walls.wall import Wall, cdi_hook
from gpusharing.api.sharing.offers import Enforcement
from gpusharing.nvidia.cdi_specs import MEMORY_LIMITS, CdiSpecs, Hook, nvidia_device
from gpusharing.nvidia.memory_walls import MemoryLimit, MemoryUse
from gpusharing.sim import cuda
from nvidia.nodes import opened
from toolkit.container import Container, container
from toolkit.machine import CGROUPS, Machine
from toolkit.toolkit import Edits

MIB, GIB = 1024**2, 1024**3
CLAIM = "3f1c8f0e-6a0d-4a55-9d0c-7f0f3a1d0b11"


@dataclass(frozen=True)
class Site:
    node: sim.SimNode
    machine: Machine
    spec: dict[str, Edits]
    """NVIDIA's: what each device changes in a container."""
    specs: Path
    program: Path
    directory: Path
    walls: WallDirectories = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "walls", WallDirectories(self.directory / "walls"))

    def uuid(self, gpu: int) -> str:
        return self.node.gpus()[gpu].uuid

    def nvidia_hook(self, gpu: int) -> Hook:
        hook = CdiSpecs((self.specs,)).hook(nvidia_device(self.uuid(gpu)), MEMORY_LIMITS)
        assert hook is not None
        return hook

    def device(
        self,
        gpu: int = 0,
        limit_mib: int = 8 * 1024,
        enforcement: Enforcement = Enforcement.REQUIRED,
        *,
        claim: str = CLAIM,
        **changes: Any,
    ) -> list[Edits]:
        """What a container gets of a claim, in this order: NVIDIA's device of the GPU, and ours with the wall."""
        wall = Wall(
            **{
                "claim": "ml/train",
                "uuid": self.uuid(gpu),
                "limit_mib": limit_mib,
                "enforcement": enforcement,
                "nvidia_hook": self.nvidia_hook(gpu),
                **changes,
            }
        )
        directory = self.walls.write(claim, gpu, wall)
        return [self.spec[self.uuid(gpu)], {"hooks": [cdi_hook(self.program, directory)]}]

    @contextmanager
    def container(self, *devices: list[Edits], name: str = "c1", **environment: str) -> Iterator[Container]:
        """One that has started."""
        with self.unstarted(name=name, **environment) as made:
            assert run_hooks(made, *devices) is None
            yield made

    @contextmanager
    def unstarted(self, name: str = "c1", **environment: str) -> Iterator[Container]:
        with container(self.machine, self.directory / name, environment) as made:
            yield made

    async def use(self, made: Container, gpu: int = 0) -> MemoryUse | None:
        """As the driver tells it."""
        async with opened(self.node) as hardware:
            return await hardware.memory_use(self.uuid(gpu), made.cgroup_from_outside)

    async def noted_uses(self, gpu: int = 0, claim: str = CLAIM) -> dict[str, MemoryUse | None]:
        """As the agent finds them by what our hook has noted."""
        noted = self.walls.containers(claim, gpu)
        async with opened(self.node) as hardware:
            cgroups = self.machine.seen_from_outside(CGROUPS)
            uses = await memory_uses(hardware, self.uuid(gpu), cgroups, noted)
        return {container.id: use for container, use in uses.items()}

    @contextmanager
    def running(self, made: Container, memory: str, gpu: int = 0) -> Iterator[None]:
        """A CUDA process in the container, which has got this much."""
        with made.start(self.node, cuda.Options(gpu=self.uuid(gpu), memory=memory)) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline(), "it does not get what it wants"
                yield
            finally:
                process.kill()

    def is_refused(self, made: Container, memory: str, gpu: int = 0) -> bool:
        """Whether a CUDA process in the container does not get this much."""
        with made.start(self.node, cuda.Options(gpu=self.uuid(gpu), memory=memory, seconds=0.1)) as process:
            try:
                return "CUDA error 2: " in process.communicate(timeout=20)[1]
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def run_hooks(made: Container, *devices: list[Edits]) -> str | None:
    """As containerd and runc do: of all devices, in their order. What the first failure says."""
    for edits in (edits for device in devices for edits in device):
        error = made.run_hooks(edits)
        if error is not None:
            return error
    return None


def held_to(limit_mib: int, used: int = 0) -> MemoryUse:
    return MemoryUse(limit=MemoryLimit(guaranteed=limit_mib * MIB, most=limit_mib * MIB), used=used)
