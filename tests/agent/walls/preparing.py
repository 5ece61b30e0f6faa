"""An agent's Prepare and Unprepare in this process, with a fuse at every step, on GPUs that can have walls."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.settling.mortal import Fuse, MortalHardware, MortalRecords
from building import DRIVER
from controller.api_server import Answer, ApiServer, Request, status
from gpusharing import sim
from gpusharing.agent.claims.parts import ClaimParts
from gpusharing.agent.claims.reading import ClaimRef
from gpusharing.agent.containers.cdi import CdiDirectory
from gpusharing.agent.containers.device_metadata import MetadataFiles
from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.inspection.survey import Survey
from gpusharing.agent.inspection.watch import Watch
from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.start import Start
from gpusharing.agent.state.models import PreparedDevice
from gpusharing.agent.steps import InternalErrors, Steps
from gpusharing.agent.walls.claim_walls import Walls
from gpusharing.agent.walls.directories import WallDirectories
from gpusharing.agent.walls.wall import Wall
from gpusharing.api.meta import WholeMeta
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import GpuSharing, NodeSharingSpec, PolicyReference
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.api.sharing.offers import (
    Enforcement,
    ExclusiveOffer,
    Interval,
    Offers,
    TimeSlicingMemory,
    TimeSlicingOffer,
)
from gpusharing.kube.transport import Api
from gpusharing.nvidia.cdi_specs import CdiSpecs
from nvidia.nodes import driver_of

NODE = "n1"
REF = ClaimRef("uid-1", "ml", "train")


def offers(
    enforcement: Enforcement = Enforcement.REQUIRED, default: str = "4096Mi", interval: Interval = Interval.MEDIUM
) -> Offers:
    memory = TimeSlicingMemory(default=default, enforcement=enforcement)
    offer = TimeSlicingOffer(max_clients=4, interval=interval, memory=memory)
    return Offers(exclusive=ExclusiveOffer(), time_slicing=offer)


def share(gpu: int, memory: str | None = None, **changes: Any) -> dict[str, Any]:
    """An allocation result."""
    consumed = {"shares": "1"} | ({"memory": memory} if memory else {})
    result = {"request": f"gpu-{gpu}", "driver": DRIVER, "pool": NODE, "device": f"gpu-{gpu}-timeslicing"}
    return result | {"shareID": f"share-{gpu}", "consumedCapacity": consumed} | changes


TWO_GPUS = (share(0), share(1, "16Gi"))


def sharing_of(status: NodeSharingStatus = NodeSharingStatus(), **spec: Any) -> NodeSharing:  # noqa: B008 (immutable)
    return NodeSharing(metadata=WholeMeta(name=NODE), spec=NodeSharingSpec(**spec), status=status)


def started() -> Start:
    """The GPUs are known."""
    start = Start()
    start.gpus_known.set()
    return start


class Claims:
    """What the API server has of claim REF."""

    def __init__(self, *results: dict[str, Any]) -> None:
        self.results = results

    def answer(self, request: Request) -> Answer:
        if request.path != f"/apis/resource.k8s.io/v1/namespaces/{REF.namespace}/resourceclaims/{REF.name}":
            return status(404, "NotFound")
        metadata = {"uid": REF.uid, "namespace": REF.namespace, "name": REF.name, "resourceVersion": "1"}
        allocation = {"devices": {"results": list(self.results)}}
        return 200, {"metadata": metadata, "status": {"allocation": allocation}}

    def server(self) -> ApiServer:
        return ApiServer(self.answer)


class MortalDirectories(WallDirectories):
    def __init__(self, home: Path, fuse: Fuse) -> None:
        super().__init__(home)
        self._fuse = fuse

    def write(self, claim_uid: str, index: int, wall: Wall) -> Path:
        self._fuse.point("wall")
        directory = super().write(claim_uid, index, wall)
        self._fuse.point("walled")
        return directory

    def delete(self, claim_uid: str) -> None:
        self._fuse.point("raze")
        for file in sorted((self._home / claim_uid).glob("*/wall")):
            # It takes more than one step.
            file.unlink()
            self._fuse.point("half razed")
        super().delete(claim_uid)
        self._fuse.point("razed")


class MortalCdi(CdiDirectory):
    def __init__(self, directories: tuple[Path, ...], fuse: Fuse) -> None:
        super().__init__(CdiSpecs(directories))
        self._fuse = fuse

    def write(self, claim_uid: str, devices: tuple[PreparedDevice, ...]) -> None:
        self._fuse.point("spec")
        super().write(claim_uid, devices)
        self._fuse.point("specified")

    def delete(self, claim_uid: str) -> None:
        self._fuse.point("despecify")
        super().delete(claim_uid)
        self._fuse.point("despecified")


@dataclass
class Ground:
    """What outlives an agent."""

    node: sim.SimNode
    hardware: MortalHardware
    fuse: Fuse
    api: Api
    packaged: Path

    async def agent(self, directory: Path, offered: Offers | None) -> "Agent":
        """One that starts, with what the one before has left in this directory."""
        agent = Agent(self, directory)
        await agent.survey.take()
        await agent.recovery.renew()
        await agent.recovery.settle()
        await agent.recovery.learn(sharing_of(), (), take_survey=agent.survey.take)
        if offered:
            await agent.decide(offered)
        return agent


@asynccontextmanager
async def ground(node: sim.SimNode, api: Api, packaged: Path) -> AsyncIterator[Ground]:
    fuse = Fuse()
    with driver_of(node):
        roots = {"sysfs_root": node.sys, "proc_root": node.proc, "dev_root": node.dev}
        hardware = MortalHardware(node.directory, specs=CdiSpecs((node.cdi,)), fuse=fuse, **roots)
        await hardware.open()
        try:
            yield Ground(node, hardware, fuse, api, packaged)
        finally:
            node.clear()
            await hardware.close()


class Agent:
    def __init__(self, ground: Ground, directory: Path) -> None:
        self.ground = ground
        fuse = ground.fuse
        directories = (directory / "cdi", ground.node.cdi)
        self.state = directory / "state"
        self.cdi = MortalCdi(directories, fuse)
        self.records = MortalRecords(self.state, proc_root=ground.node.proc, runtime=directory / "run", fuse=fuse)
        self.walls = Walls(
            ground.hardware, self.records, CdiSpecs(directories), state=self.state, packaged=ground.packaged
        )
        self.directories = self.walls._directories = MortalDirectories(self.state / "walls", fuse)
        self.gpus = NodeGpus(self.records, node=NODE, waits_for_slots=True)
        self.settler = Settler(ground.hardware, self.records, mps_home=self.state / "mps", at_rest=self.gpus.at_rest)
        self.health = NodeHealth(self.records, problem=self.settler.problem)
        self.survey = Survey(
            hardware=ground.hardware, walls=self.walls, gpus=self.gpus, health=self.health, gates=self.settler.gates
        )
        self.changed = asyncio.Event()
        parts = ClaimParts.assemble(
            node=NODE,
            driver=DRIVER,
            api=ground.api,
            records=self.records,
            hardware=ground.hardware,
            gpus=self.gpus,
            settler=self.settler,
            walls=self.walls,
            cdi=self.cdi,
            metadata=MetadataFiles(self.state / "metadata", DRIVER),
            unallocated=self.health.unallocated,
            start=started(),
            steps=Steps(InternalErrors()),
            on_change=self.changed.set,
        )
        self.verdicts, self.preparer, self.recovery = parts.verdicts, parts.preparer, parts.recovery

    def watch(self) -> Watch:
        return Watch(
            hardware=self.ground.hardware,
            survey=self.survey,
            walls=self.walls,
            health=self.health,
            settler=self.settler,
            on_change=self.changed.set,
        )

    async def decide(self, offered: Offers, policy: str = "walls") -> None:
        reference = PolicyReference(name=policy, generation=1)
        self.gpus.told(GpuSharing(uuid=uuid, policy=reference, offers=offered) for uuid in self.gpus.uuids)
        await self.gpus.put_in_force(self.gpus.plan(self.gpus.uuids, shown=(), now=0, answers={}))

    # --------------------------------------------------------------------------------------------- what is on disk

    def hooks(self) -> dict[str, list[list[str]]]:
        """The words of our hook for each device of each claim that has a CDI spec."""
        found = {}
        for uid in self.cdi.claims():
            spec = json.loads((self.state.parent / f"cdi/gpusharing.dev-claim_{uid}.json").read_bytes())
            edits = [device["containerEdits"] for device in spec["devices"]]
            found[uid] = [[word for hook in edit.get("hooks", ()) for word in hook["args"]] for edit in edits]
        return found

    def limits(self) -> dict[str, list[str]]:
        """Of each wall of each claim, its lines on limit and enforcement."""
        return {
            uid: [_told(path) for path in sorted((self.state / "walls" / uid).glob("*/wall"))]
            for uid in self.directories.claims()
        }

    def assert_specs_lead_to_walls(self) -> None:
        for hooks in self.hooks().values():
            for words in hooks:
                assert not words or (Path(words[1]) / "wall").is_file(), words

    def assert_nothing_is_left(self) -> None:
        assert (self.cdi.claims(), self.directories.claims(), dict(self.records.claims)) == ([], [], {})


def _told(path: Path) -> str:
    lines = dict(line.split("=", 1) for line in path.read_text().splitlines())
    return f"{lines['limit']} {lines['enforcement']}"


def walled(limits: Iterable[str]) -> dict[str, list[str]]:
    return {REF.uid: list(limits)}
