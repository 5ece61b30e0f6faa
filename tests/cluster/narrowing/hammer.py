"""Claims of all four modes come and go at random, in bad weather: users, kubelets and the weather."""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from agent.on_cluster import DRIVER, RESOURCE, GpuNode
from cluster.narrowing.allocations import Place
from cluster.narrowing.bed import HALF, MPS, PART, SHARE, WHOLE, Bed, Wish, Workload
from cluster.narrowing.room import Room
from gpusharing.api import names

WISHES: Final = (WHOLE, SHARE, SHARE, MPS, PART, PART, HALF)
HISTORIES: Final = ("ends", "ends", "ends", "forced", "never prepared", "forced while it is prepared")
LATE: Final = 1.0
"""So late are slices at most; agents drop nothing as early."""
TAKEN_WAIT: Final = 3.0
IDLE_WAIT: Final = 3.0
LOOK_EVERY: Final = 0.25


@dataclass
class Waiting:
    wish: Wish
    room_since: float | None = None


@dataclass
class Hammer:
    bed: Bed
    nodes: dict[str, GpuNode]
    claims: int
    users: int
    seed: int
    placed_within: float
    """So soon after there is room."""

    held: dict[str, tuple[Place, str]] = field(default_factory=dict)
    """What a kubelet has prepared, or is about to, by claim: until it is unprepared nobody else can use it."""
    waiting: dict[str, Waiting] = field(default_factory=dict)
    waits: list[float] = field(default_factory=list)
    """How long pods waited although there was room."""
    seen: Counter[str] = field(default_factory=Counter)
    slow: dict[str, str] = field(default_factory=dict)
    """Who waited longer."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311
        self._left = self.claims

    async def run(self) -> None:
        weather = [asyncio.create_task(work()) for work in (self._lateness, self._wipes, self._no_answers, self._watch)]
        try:
            async with asyncio.TaskGroup() as users:
                for _ in range(self.users):
                    users.create_task(self._user())
        finally:
            for task in weather:
                task.cancel()
            done = await asyncio.gather(*weather, return_exceptions=True)
        for result in done:
            if isinstance(result, Exception):
                raise result

    # ---------------------------------------------------------------------------------------------------- users

    async def _user(self) -> None:
        while self._left > 0 and not self.bed.allocations.wrong:
            self._left -= 1
            await self._one(self.random.choice(WISHES), self.random.choice(HISTORIES))
            await asyncio.sleep(self.random.uniform(0, 0.5))

    async def _one(self, wish: Wish, history: str) -> None:
        workload = await self.bed.start(wish)
        self.waiting[workload.name] = Waiting(wish)
        place, device = await self._bound(workload)
        waited = self.waiting.pop(workload.name)
        if waited.room_since is not None:
            self.waits.append(time.monotonic() - waited.room_since)
        self.seen[str(names.sharing_of_device(device))] += 1
        self.seen[history] += 1
        if history == "never prepared":
            await asyncio.sleep(self.random.uniform(0, 2))
            await self.bed.ends(workload)
            return
        self.held[workload.name] = (place, device)
        preparing = asyncio.create_task(self._prepare(workload, place))
        if history == "forced while it is prepared":
            await self.bed.ends(workload)
        elif await preparing:
            await self._lives()
        node = self.nodes[place.node]
        if history == "ends":
            await self.bed.ends(workload, on=node)
        else:
            await self.bed.ends(workload)
            # The kubelet hears of it when it looks the next time, at times so late that the agent narrows before.
            await asyncio.sleep(self.random.uniform(0, self.random.choice([1, 4 * TAKEN_WAIT])))
            await preparing
            await node.kubelet.unprepare(workload.claim)
        del self.held[workload.name]

    async def _lives(self) -> None:
        """Some so long that their GPU is narrowed."""
        is_long = self.random.random() < 0.3
        await asyncio.sleep(self.random.uniform(2 * TAKEN_WAIT, 5 * TAKEN_WAIT) if is_long else self.random.random())

    async def _bound(self, workload: Workload) -> tuple[Place, str]:
        """The scheduler never gives up, so nor does this."""
        node = await self.bed.bound[workload.name]
        device = await self.bed.device(workload)
        slot = names.slot_of_device(device or "")
        assert device is not None
        assert slot is not None
        return Place(node, slot), device

    # -------------------------------------------------------------------------------------------------- kubelets

    async def _prepare(self, workload: Workload, place: Place) -> bool:
        """As a kubelet does, again and again. False: the claim is the later one of two that exclude each other."""
        while True:
            error = await self.bed.prepare_error(workload, on=self.nodes[place.node])
            if not error:
                return True
            self.seen["refused by Prepare"] += 1
            if "not found" in error or "has no device" in error:
                # Deleted by force meanwhile.
                return False
            # The GPU is another claim's still, or its shares are of claims that were deleted while they are prepared.
            assert "is prepared for claim" in error or "is left by prepared claims" in error, error
            others = {held.claim for held in self.bed.allocations.on(place)} - {workload.name}
            if place in self.bed.allocations.ill and any(f"/{other} " in error for other in others):
                # There is nobody yet who evicts it.
                self.seen["evicted by the test"] += 1
                return False
            await asyncio.sleep(LOOK_EVERY)

    # --------------------------------------------------------------------------------------------------- weather

    async def _lateness(self) -> None:
        while True:
            self.bed.proxy.slices.seconds = self.random.choice([0, 0, LATE / 2, LATE])
            await asyncio.sleep(self.random.uniform(0.5, 3))

    async def _wipes(self) -> None:
        while True:
            await asyncio.sleep(self.random.uniform(2, 6))
            selector = f"fieldSelector=spec.nodeName%3D{self.random.choice(list(self.nodes))}%2Cspec.driver%3D{DRIVER}"
            await self.bed.admin.call("DELETE", f"{RESOURCE}/resourceslices?{selector}")
            self.seen["slices wiped"] += 1

    async def _no_answers(self) -> None:
        """In the second half: in the first nothing at all is excused."""
        while True:
            await asyncio.sleep(self.random.uniform(5, 10))
            if self._left > self.claims / 2:
                continue
            await self.bed.proxy.leave_next_allocation_unanswered().wait()
            self.seen["allocations without an answer"] += 1
            await asyncio.sleep(self.random.uniform(0, 1.5))
            self.bed.proxy.claims.release()

    # --------------------------------------------------------------------------------------- what has to be true

    async def _watch(self) -> None:
        """Whoever waits although there is room for all that waited longer and for it."""
        ill: set[Place] = set()
        while True:
            now = time.monotonic()
            room = Room({place: self._holders(place) for place in self._places()})
            for name, waiting in self.waiting.items():
                if not room.find(waiting.wish):
                    waiting.room_since = None
                    continue
                waiting.room_since = now if waiting.room_since is None else waiting.room_since
                if now - waiting.room_since > self.placed_within:
                    self.slow.setdefault(name, f"{waiting.wish} waits although there is room: {room}")
            self.seen["GPUs in two modes by the scheduler alone"] += len(self.bed.allocations.ill.keys() - ill)
            ill = set(self.bed.allocations.ill)
            await asyncio.sleep(LOOK_EVERY)

    def _places(self) -> list[Place]:
        return [Place(name, slot) for name, node in self.nodes.items() for slot in range(len(node.sim.gpus()))]

    def _holders(self, place: Place) -> dict[str, str]:
        """The device of each claim that is allocated there or not yet unprepared."""
        held = {claim: device for claim, (where, device) in self.held.items() if where == place}
        return held | {one.claim: one.device for one in self.bed.allocations.on(place)}
