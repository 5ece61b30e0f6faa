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
from gpusharing.agent import node_loop
from gpusharing.agent.claims.parts import ClaimParts
from gpusharing.agent.claims.reading import ClaimRef
from gpusharing.agent.claims.status import ClaimStatusWriter
from gpusharing.agent.containers.cdi import CdiDirectory
from gpusharing.agent.containers.device_metadata import MetadataFiles
from gpusharing.agent.health.events import HealthEvents
from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.inspection.survey import Survey
from gpusharing.agent.kubelet.health_stream import HealthService
from gpusharing.agent.node_loop import NodeLoop
from gpusharing.agent.publishing import publisher
from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.publishing.other_drivers import OtherDrivers
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.start import Start
from gpusharing.agent.state import records
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.agent.steps import InternalErrors, Steps
from gpusharing.agent.walls.claim_walls import Walls
from gpusharing.kube.clock import as_moment
from gpusharing.kube.events import Events
from gpusharing.kube.watches import Watches
from gpusharing.nvidia.cdi_specs import CdiSpecs
from gpusharing.nvidia.hardware import Hardware

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
            mock.patch.object(node_loop, "seconds_since_boot", self.seconds_since_boot),
            mock.patch.object(node_loop, "now", self.moment),
            mock.patch.object(node_loop, "_REPORT_EVERY", 0.0),
            mock.patch.object(node_loop, "_REPORT_AT_LEAST_EVERY", 0.0),
            # Rounds come to their end, however busy the machine is.
            mock.patch.object(node_loop, "_SETTLED_WITHIN", 3600.0),
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
            specs=CdiSpecs((bed.cdi,)),
        )
        trouble.threaten(self.hardware)

    async def start(self) -> None:
        """As `gpusharing agent` does."""
        await self.hardware.open()
        self.records = Records(self._bed.state, proc_root=self._bed.sim.proc, runtime=self._bed.mps_home)
        self.gpus = NodeGpus(self.records, node=NODE, waits_for_slots=True)
        self.settler = Settler(self.hardware, self.records, mps_home=self._bed.mps_home, at_rest=self.gpus.at_rest)
        directories = (self._bed.cdi,)
        self.walls = Walls(
            self.hardware, self.records, CdiSpecs(directories), state=self._bed.state, packaged=_NO_PROGRAM
        )
        health = NodeHealth(self.records, problem=self.settler.problem)
        self.survey = Survey(
            hardware=self.hardware, walls=self.walls, gpus=self.gpus, health=health, gates=self.settler.gates
        )
        await self.survey.take()
        self.changed = asyncio.Event()
        start = Start()
        start.gpus_known.set()
        self.steps = steps = Steps(InternalErrors())
        parts = ClaimParts.assemble(
            node=NODE,
            driver=DRIVER,
            api=self._server,
            records=self.records,
            hardware=self.hardware,
            gpus=self.gpus,
            settler=self.settler,
            walls=self.walls,
            cdi=CdiDirectory(CdiSpecs(directories)),
            metadata=MetadataFiles(self._bed.state / "metadata", DRIVER),
            unallocated=health.unallocated,
            start=start,
            steps=steps,
            on_change=self.changed.set,
        )
        self.verdicts, self.preparer, self.recovery = parts.verdicts, parts.preparer, parts.recovery
        await self.recovery.renew()
        await self.recovery.settle()
        self.loop = NodeLoop(
            node=NODE,
            driver=DRIVER,
            api=self._server,
            records=self.records,
            gpus=self.gpus,
            settler=self.settler,
            health=health,
            health_events=HealthEvents(Events(self._server, controller=DRIVER, instance=NODE)),
            writer=ClaimStatusWriter(self._server, DRIVER, health, on_change=self.changed.set),
            stream=HealthService(self.records.claims.values, health.of_device),
            steps=steps,
            problems=lambda: steps.problems,
            is_registered=lambda: True,
            calls=lambda: self.preparer.calls,
            survey=self.survey,
            changed=self.changed,
            start=start,
            recovery=self.recovery,
            verdicts=self.verdicts,
            watches=Watches(),
            others=OtherDrivers(self._server, node=NODE, driver=DRIVER, are_accepted=True),
        )
        # The loop begins with a round.
        self.changed.set()

    async def end(self) -> None:
        """It is gone; nothing is tidied up but what the kernel tidies up."""
        await self.hardware.close()

    async def round(self) -> None:
        """What its watches bring, and one round of its loop."""
        self._hear()
        self.changed.clear()
        # It is time to try again whatever has failed.
        self.steps.retry_now()
        await self.loop._round()
        if self.steps.have_failed:
            raise OSError(f"steps failed: {self.steps.problems}")

    async def learn(self) -> None:
        """The loop begins with the agent, and Prepare waits for this."""
        if not self.preparer.is_recovered.is_set():
            self._hear()
            await self.loop._learn(await self.loop._own_sharing())

    def _hear(self) -> None:
        if self._server.sharing:
            self.loop._sharings.put(self._server.sharing)
        slices = self.loop._publisher.slices
        for known in slices.objects:
            if known.metadata.name not in self._server.slices:
                slices.drop(known)
        for slice_ in self._server.slices.values():
            slices.put(slice_)

    async def rescan(self) -> None:
        """As its loop does every minute."""
        await self.survey.take()
        self.walls.renew()
        self.settler.forget()

    async def prepare(self, uid: str) -> PreparedClaim:
        self.verdicts.told(self._server.verdicts())
        await self.learn()
        return await self.preparer.prepare(_reference(uid))

    async def unprepare(self, uid: str) -> None:
        await self.preparer.unprepare(_reference(uid))


def _reference(uid: str) -> ClaimRef:
    return ClaimRef(uid=uid, namespace="default", name=uid)
