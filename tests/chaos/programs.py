"""The programs of a cluster, kept running as kubelets and systemd keep them, unless a fault holds one down."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from harness.gpu_cluster import GpuCluster
from harness.processes import Process

_LOOK_EVERY: Final = 0.2
_LONGEST_BACKOFF: Final = 5.0


class Programs:
    def __init__(self, cluster: GpuCluster) -> None:
        self._programs = {
            "agent": cluster.agent,
            "operator": cluster.operator,
            "kubelet": cluster.node.kubelet,
            "containerd": cluster.node.containerd,
            "scheduler": cluster.scheduler,
            "controller-manager": cluster.controller_manager,
            "API server": cluster.apiserver,
        }
        self._held: set[str] = set()
        self.ended: Counter[str] = Counter()
        """How often each ended by itself."""

    def __getitem__(self, name: str) -> Process:
        return self._programs[name]

    async def keep(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name in self._programs:
                tasks.create_task(self._keep(name))

    async def _keep(self, name: str) -> None:
        while True:
            await asyncio.sleep(_LOOK_EVERY)
            program = self._programs[name]
            if name not in self._held and not program.running:
                self.ended[name] += 1
                await asyncio.sleep(min(self.ended[name], _LONGEST_BACKOFF))
                if name not in self._held:
                    await program.start()

    @asynccontextmanager
    async def held(self, *names: str) -> AsyncIterator[None]:
        """Whoever holds them stops and starts them."""
        self._held |= set(names)
        try:
            yield
        finally:
            self._held -= set(names)

    @asynccontextmanager
    async def down(self, *names: str, cleanly: bool = False) -> AsyncIterator[None]:
        async with self.held(*names):
            for name in names:
                await (self[name].stop() if cleanly else self[name].kill())
            yield
            for name in names:
                await self[name].start()


def processor_seconds(program: Process) -> float:
    """Of the program and those that it has started."""
    pids, total = [program.pid], 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")
