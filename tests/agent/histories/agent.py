"""One life of the agent: its real objects over what the lives before have left on disk."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest import mock

from agent.histories.control_plane import NODE, Server
from agent.histories.simulated import SimulatedNode
from agent.histories.trouble import Trouble
from building import DRIVER
from gpusharing.agent import node, publisher, records
from gpusharing.agent.cdi import CdiDirectory
from gpusharing.agent.cdi_specs import CdiSpecs
from gpusharing.agent.claim_status import ClaimStatusWriter
from gpusharing.agent.device_metadata import MetadataFiles
from gpusharing.agent.dra.health import HealthService
from gpusharing.agent.gpus import NodeGpus
from gpusharing.agent.hardware.node import Hardware
from gpusharing.agent.health import NodeHealth
from gpusharing.agent.health_events import HealthEvents
from gpusharing.agent.node import NodeLoop
from gpusharing.agent.prepare import ClaimRef, Preparer
from gpusharing.agent.records import PreparedClaim, Records
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.survey import Survey
from gpusharing.agent.verdicts import Verdicts
from gpusharing.agent.walls.walls import Walls
from gpusharing.kube.clock import as_moment
from gpusharing.kube.events import Events
from gpusharing.kube.watches import Watches

# Of the walls between time-sliced claims there are tests of their own.
_NO_PROGRAM: Final = Path("/nowhere")


class Clock:
    """Seconds since boot, as the history says."""

    def __init__(self) -> None:
        self.now = 10_000.0

    def seconds_since_boot(self) -> float:
        return self.now

    def moment(self) -> str:
        return as_moment(self.now)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        with (
            mock.patch.object(node, "seconds_since_boot", self.seconds_since_boot),
            mock.patch.object(node, "now", self.moment),
            mock.patch.object(node, "_REPORT_EVERY", 0.0),
            mock.patch.object(publisher, "seconds_since_boot", self.seconds_since_boot),
            mock.patch.object(records, "seconds_since_boot", self.seconds_since_boot),
        ):
            yield


class Agent:
    def __init__(self, bed: SimulatedNode, server: Server, trouble: Trouble) -> None:
        self._bed = bed
        self._server = server
        self.hardware = Hardware(
            bed.sim.directory,
            sysfs_root=bed.sim.sys,
            proc_root=bed.sim.proc,
            dev_root=bed.sim.dev,
            cdi_directories=(bed.cdi,),
        )
        trouble.threaten(self.hardware)

    async def start(self) -> None:
        """As `gpusharing agent` does."""
        await self.hardware.open()
        self.records = Records(self._bed.state, proc_root=self._bed.sim.proc)
        self.gpus = NodeGpus(self.records, node=NODE)
        self.settler = Settler(self.hardware, self.records, mps_home=self._bed.mps_home, at_rest=self.gpus.at_rest)
        directories = (self._bed.cdi,)
        self.walls = Walls(
            self.hardware, self.records, CdiSpecs(directories), state=self._bed.state, packaged=_NO_PROGRAM
        )
        health = NodeHealth(self.records, problem=self.settler.problem)
        self.survey = Survey(hardware=self.hardware, walls=self.walls, gpus=self.gpus, health=health)
        await self.survey.take()
        self.changed = asyncio.Event()
        self.verdicts = Verdicts(node=NODE, driver=DRIVER)
        self.preparer = Preparer(
            node=NODE,
            driver=DRIVER,
            api=self._server,
            records=self.records,
            hardware=self.hardware,
            gpus=self.gpus,
            settler=self.settler,
            walls=self.walls,
            cdi=CdiDirectory(directories),
            metadata=MetadataFiles(self._bed.state / "metadata", DRIVER),
            verdicts=self.verdicts,
            on_prepared=lambda _: None,
            on_change=self.changed.set,
        )
        await self.preparer.recover()
        self.loop = NodeLoop(
            node=NODE,
            driver=DRIVER,
            api=self._server,
            records=self.records,
            gpus=self.gpus,
            settler=self.settler,
            health=health,
            health_events=HealthEvents(Events(self._server, controller=DRIVER, instance=NODE)),
            writer=ClaimStatusWriter(self._server, DRIVER, health),
            stream=HealthService(self.records.claims.values, health.of_device),
            survey=self.survey,
            changed=self.changed,
            preparer=self.preparer,
            verdicts=self.verdicts,
            watches=Watches(),
        )
        # The loop begins with a round.
        self.changed.set()

    async def end(self) -> None:
        """It is gone; nothing is tidied up but what the kernel tidies up."""
        await self.hardware.close()

    async def round(self) -> None:
        """What its watches bring, and one round of its loop."""
        if self._server.sharing:
            self.loop._sharings.put(self._server.sharing)
        slices = self.loop._publisher.slices
        for known in slices.objects:
            if known.metadata.name not in self._server.slices:
                slices.drop(known)
        for slice_ in self._server.slices.values():
            slices.put(slice_)
        self.changed.clear()
        await self.loop._round()

    async def rescan(self) -> None:
        """As its loop does every minute."""
        async with self.preparer.gate:
            await self.survey.take()
            self.walls.renew()
        self.settler.forget()

    async def prepare(self, uid: str) -> PreparedClaim:
        self.verdicts.told(self._server.verdicts())
        return await self.preparer.prepare(_reference(uid))

    async def unprepare(self, uid: str) -> None:
        await self.preparer.unprepare(_reference(uid))


def _reference(uid: str) -> ClaimRef:
    return ClaimRef(uid=uid, namespace="default", name=uid)
