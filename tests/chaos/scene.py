"""What faults act on: the cluster, its node as a machine that can be switched off, and who may be hurt."""

import asyncio
import os
import random
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp

from agent.on_cluster import SHARINGS, Admin
from chaos.churn import Churn, Witness
from chaos.invariants import Invariant, Violation
from chaos.programs import Programs
from gpusharing.agent.state.files import remove
from gpusharing.sim import Gpu, SimNode
from harness.gpu_cluster import GpuCluster

_REPORTED_WITHIN: Final = 75.0
"""A GPU that is not in use is inspected once a minute."""
ON_NODE: Final = ("agent", "kubelet", "containerd")


@dataclass
class Scene:
    cluster: GpuCluster
    admin: Admin
    programs: Programs
    churn: Churn
    dice: random.Random
    note: Callable[[str], None]
    state_is_mounted: bool = field(default=False, init=False)
    """On a file system that only the node has."""
    settings_hold: bool = field(default=True, init=False)
    """False while others than the agent may have changed GPUs under programs."""

    @property
    def sim(self) -> SimNode:
        return self.cluster.sim_node

    @property
    def state(self) -> Path:
        """The agent's state directory, as the agent sees it."""
        directory = self.cluster.state_directory(self.cluster.node)
        return self.cluster.node.seen_from_outside(str(directory)) if self.state_is_mounted else directory

    def draw_gpu(self) -> Gpu:
        return self.dice.choice(self.sim.gpus())

    def may_end(self, whom: Callable[[Witness], bool]) -> None:
        self.churn.excuse(whom)

    def all_may_end(self) -> None:
        self.may_end(lambda _: True)

    def kill(self, witness: Witness) -> None:
        """Its program, if it has one: then its container is started again."""
        if witness.program:
            with suppress(ProcessLookupError):
                os.kill(witness.program.pid, signal.SIGKILL)

    async def sharing(self) -> dict[str, Any]:
        """The NodeSharing."""
        found: dict[str, Any] = await self.admin.call("GET", f"{SHARINGS}/{self.cluster.node.name}")
        return found

    async def condition(self, uuid: str, type_: str = "Healthy") -> dict[str, Any]:
        """Of a GPU."""
        for gpu in (await self.sharing()).get("status", {}).get("gpus", []):
            if gpu["uuid"] == uuid:
                return next((item for item in gpu.get("conditions", []) if item["type"] == type_), {})
        return {}

    async def reports(self, fact: str, is_reported: Callable[[], Awaitable[bool]]) -> None:
        """Waits until it is reported."""
        began = time.monotonic()
        while True:
            try:
                if await is_reported():
                    return
            except aiohttp.ClientError:
                pass
            if time.monotonic() - began > _REPORTED_WITHIN:
                raise Violation(Invariant.REPORTED, f"not reported within {_REPORTED_WITHIN:g} s: {fact}")
            await asyncio.sleep(0.5)

    async def reports_gpu(self, uuid: str, reason: str) -> None:
        async def is_reported() -> bool:
            return (await self.condition(uuid)).get("reason") == reason

        await self.reports(f"GPU {uuid} is {reason}", is_reported)

    async def reports_pod(self, witness: Witness, reason: str) -> None:
        """As an Event."""
        path = f"/api/v1/namespaces/{witness.namespace}/events?fieldSelector=involvedObject.name={witness.name}"

        async def is_reported() -> bool:
            events = (await self.admin.call("GET", path))["items"]
            return any(event["reason"] == reason for event in events)

        await self.reports(f"{reason} of pod {witness.id}", is_reported)

    async def reports_node(self, type_: str, status: str, reason: str = "") -> None:
        async def is_reported() -> bool:
            conditions = (await self.sharing()).get("status", {}).get("conditions", [])
            found: dict[str, Any] = next((item for item in conditions if item["type"] == type_), {})
            return found.get("status") == status and found.get("reason") == (reason or found.get("reason"))

        await self.reports(f"{type_}={status} {reason} of the node", is_reported)

    # ------------------------------------------------------------------------------------------------ the machine

    @asynccontextmanager
    async def switched_off(self, *, cleanly: bool = False) -> AsyncIterator[None]:
        self.all_may_end()
        async with self.programs.held(*ON_NODE), self.cluster.switched_off(cleanly=cleanly):
            yield

    @asynccontextmanager
    async def small_state(self, size: str) -> AsyncIterator[None]:
        """The state directory is a small file system; before and after, its files are moved. Looks at them go on, so
        nobody may see those of before the mount afterwards."""
        place = self.cluster.state_directory(self.cluster.node)
        async with self.programs.down("agent"):
            await self.cluster.node.run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place)
            self.state_is_mounted = True
            shutil.copytree(place, self.state, dirs_exist_ok=True)
        yield
        async with self.programs.down("agent"):
            for below in place.iterdir():
                remove(below)
            shutil.copytree(self.state, place, dirs_exist_ok=True)
            self.state_is_mounted = False
            await self.cluster.node.run("umount", place)

    def renew_cdi(self) -> None:
        """As NVIDIA's service does at a boot, or `nvidia-ctk cdi generate`."""
        etc, _ = self.cluster.node.cdi_dirs
        shutil.copytree(self.sim.cdi, etc, dirs_exist_ok=True)
