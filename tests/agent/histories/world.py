"""A node with its agent, and what is known of both that is not the agent's word."""

from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from agent.histories.agent import Agent, Clock
from agent.histories.containers import Container
from agent.histories.control_plane import NODE, Server, View
from agent.histories.simulated import SimulatedNode
from agent.histories.trouble import Trouble
from agent.histories.wishes import Kind
from agent.settling.mortal import KilledError
from gpusharing import sim
from gpusharing.agent.claims.reading import PrepareError
from gpusharing.api import names
from gpusharing.api.dra import AllocationResult
from gpusharing.api.sharing.offers import Offers
from gpusharing.nvidia.errors import HardwareError
from gpusharing.sim import faults

INTERVALS: Final = tuple(sim.Timeslice)


class Violation(AssertionError):  # noqa: N818 (it is what the test is about)
    pass


@dataclass
class Claim:
    uid: str
    kind: Kind
    results: tuple[AllocationResult, ...]
    asked: bool = False
    """The kubelet has asked for it, and not given it back."""
    acked: bool = False
    """The kubelet has the answer: containers may start."""
    forgotten: bool = False
    """Its file is gone: the agent cannot know of it."""
    container: Container | None = None

    @property
    def held(self) -> list[AllocationResult]:
        return [result for result in self.results if not result.admin_access]

    def end_container(self) -> None:
        if self.container:
            self.container.end()
            self.container = None


@dataclass
class Gpu:
    """What is known of one that is not the agent's doing."""

    slices: set[sim.Timeslice | None]
    """What it may be set to when nobody holds it: what it was before, and what others have set since."""
    modes: set[sim.ComputeMode]
    mig_modes: set[sim.MigMode | None]
    """Likewise."""
    mig: bool = False
    """MIG mode was switched on by others."""
    instances: set[str] = field(default_factory=set)
    """Those of others, by the uuids of their MIG devices."""
    spoiled: bool = False
    """Others have done something that is in the agent's way."""
    changed: bool = False
    """Others have changed something since the agent has last looked."""
    offers_unknown: bool = False
    """How it was offered is lost: what is not offered any more cannot be prepared."""


class World:
    def __init__(self, bed: SimulatedNode, *, real_clients: bool = False) -> None:
        bed.begin_again()
        self.bed = bed
        self.real_clients = real_clients
        self.server = Server()
        self.trouble = Trouble()
        self.clock = Clock()
        self.agent: Agent | None = None
        self.claims: dict[str, Claim] = {}
        self.gpus = {
            uuid: Gpu(slices={gpu.timeslice}, modes={gpu.compute_mode}, mig_modes={gpu.mig_mode})
            for uuid, gpu in bed.gpus().items()
        }
        self.now = bed.gpus()
        """The GPUs after the last step."""
        self.views: list[tuple[float, View]] = []
        self.offers: Offers | None = None
        self.policy = "p0"
        self.restricted = False
        """Whether the GPUs are for tenants only."""
        self.has_spoken = False
        """The operator."""
        self.interval: sim.Timeslice | None = None
        """Of shares, by the policy in force."""
        self.expects_trouble = False
        """Something may go wrong in what comes next."""
        self.unsettled = True
        """Something has gone wrong, and no round has been without trouble since."""
        self.lasting: set[str] = set()
        """What stays wrong until it heals."""
        self.seen_late = False
        self.made = 0
        self.noted: list[str] = []
        """What has happened, for whoever reads the history."""

    @property
    def pool(self) -> str:
        """Where the operator's last word has the GPUs."""
        return names.pool(NODE, restricted_to=self.policy if self.restricted and self.offers else None)

    def note(self, text: str) -> None:
        self.noted.append(text)

    # ------------------------------------------------------------------------------------------------- the agent

    async def attempt(self, work: Coroutine[Any, Any, Any]) -> BaseException | None:
        """Something that the agent does. Whatever was to go wrong has gone wrong afterwards, or does no more."""
        error: BaseException | None = None
        try:
            await work
        except KilledError as killed:
            error = killed
            await self.bury()
        except (PrepareError, HardwareError, OSError) as problem:
            error = problem
        came = self.trouble.disarm()
        if self.expects_trouble:
            self._call_faults_end()
        self.unsettled = self.unsettled or came or self.expects_trouble or isinstance(error, HardwareError | OSError)
        self.expects_trouble = False
        if error:
            self.note(f"  {type(error).__name__}: {error}")
        return error

    def _call_faults_end(self) -> None:
        for fault in self.bed.sim.faults():
            if isinstance(fault, faults.CallFails | faults.CallLies):
                self.bed.sim.clear(fault)

    async def up(self) -> bool:
        """Whether the agent runs; one that has died is started again."""
        if self.agent is not None:
            return True
        self.agent = Agent(self.bed, self.server, self.trouble)
        calm = self.is_calm
        error = await self.attempt(self.agent.start())
        if error is None:
            # What others did, it sees when it starts; that it has settled everything, only a round shows.
            self.seen_anew()
            return True
        if calm:
            raise Violation(f"the agent does not start: {error}") from error
        await self.bury()
        return False

    async def bury(self) -> None:
        if self.agent:
            await self.agent.end()
            self.agent = None

    @property
    def is_calm(self) -> bool:
        """Nothing can go wrong in what comes next."""
        return not self.expects_trouble and self.trouble.left is None and not self.lasting

    def seen_anew(self) -> None:
        for gpu in self.gpus.values():
            gpu.changed = False

    async def round(self) -> None:
        if not await self.up():
            return
        assert self.agent
        calm = self.is_calm
        error = await self.attempt(self.agent.round())
        self._published()
        if error is None and calm:
            self.unsettled = False
        elif error is not None and calm:
            raise Violation(f"a round fails: {error}") from error
        if error is None and self.agent:
            self._in_force()

    def _published(self) -> None:
        view = View(self.server.slices)
        if not self.views or self.views[-1][1].devices != view.devices:
            self.views.append((self.clock.now, view))

    def _in_force(self) -> None:
        assert self.agent
        offer = self.offers.time_slicing if self.has_spoken and self.offers else None
        if offer is not None:
            self.interval = sim.Timeslice[offer.interval.upper()]

    # ------------------------------------------------------------------------------------------- what there is

    def claim(self, number: int) -> Claim | None:
        return list(self.claims.values())[number % len(self.claims)] if self.claims else None

    def runs(self, uid: str) -> bool:
        """Whether containers of it may be found among the node's processes."""
        return uid in self.claims and self.claims[uid].acked

    def uuid(self, number: int) -> str:
        return self.bed.uuids[number % len(self.bed.uuids)]

    def uuid_of(self, device: str) -> str:
        """GPUs get their slots in the order of their numbers, and keep them."""
        slot = names.slot_of_device(device)
        assert slot is not None
        return self.bed.uuids[slot]

    def on(self, uuid: str) -> list[tuple[Claim, AllocationResult]]:
        """Who holds the GPU, as the kubelet knows it."""
        return [
            (claim, result)
            for claim in self.claims.values()
            if claim.acked
            for result in claim.held
            if self.uuid_of(result.device) == uuid
        ]
