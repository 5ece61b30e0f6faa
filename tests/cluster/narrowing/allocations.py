"""Whether ever two ways of taking a GPU are allocated at the same time, or two pools, or a share too many: at every
single write."""

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Container, Iterator, Mapping
from typing import Any, Final, NamedTuple

from agent.on_cluster import DRIVER
from building.boards import board
from gpusharing.api import names
from gpusharing.api.dra import AllocationResult, ResourceClaim
from gpusharing.api.names import Sharing
from gpusharing.core.claims import allocation
from gpusharing.core.devices.options import can_be_held_together, of_device
from gpusharing.kube.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES, Kind
from gpusharing.kube.transport import Api, UnreachableError

MODEL: Final = "H100-80GB"
CLIENTS: Final = 4
"""Of each shared device, as the tests' policies have it."""

_REMEMBERED: Final = 30


class Place(NamedTuple):
    node: str
    slot: int


class Held(NamedTuple):
    claim: str
    device: str
    pool: str


async def events(api: Api, kind: Kind[Any]) -> AsyncIterator[tuple[str, Any]]:
    """All of them, in their order, however often the connection breaks."""
    _, version = await api.list(kind)
    while True:
        try:
            async for event, value in api.watch(kind, version):
                version = value["metadata"]["resourceVersion"]
                if event != "BOOKMARK":
                    yield event, value
        except UnreachableError:
            await asyncio.sleep(0.1)


class Allocations:
    """Follows the claims. What the API server stores one after the other comes one after the other."""

    def __init__(self, api: Api, *, excused: Container[str]) -> None:
        """Excused are claims whose allocation the scheduler was kept from knowing of: no rule prevents that."""
        self._api = api
        self._claims: dict[str, tuple[tuple[Place, Held], ...]] = {}
        self._on_gpu: defaultdict[Place, set[Held]] = defaultdict(set)
        self.wrong: list[str] = []
        """What was ever held against the rules."""
        self._excused = excused
        self.ill: dict[Place, str] = {}
        """GPUs that those have brought into two modes, until that ends."""
        self._suspect: set[Place] = set()
        """GPUs that those have come to. Until all have left the scheduler is wrong about them: what it took for free
        and gave away, it frees once more when it hears that the first one has left."""
        self._history: defaultdict[Place, deque[str]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))

    async def follow(self) -> None:
        async for event, value in events(self._api, RESOURCE_CLAIMS):
            self._changed(event, value)

    async def follow_slices(self) -> None:
        """To tell what led to something that is wrong."""
        async for event, value in events(self._api, RESOURCE_SLICES):
            devices = value["spec"].get("devices", ())
            shown = ", ".join(_shown(device) for device in devices)
            for slot in {names.slot_of_device(device["name"]) for device in devices}:
                if slot is not None:
                    self._note(Place(value["spec"]["nodeName"], slot), f"{event} {shown}")

    def _note(self, place: Place, what: str) -> None:
        self._history[place].append(f"{time.monotonic():.2f} {what}")

    def on(self, place: Place) -> set[Held]:
        return self._on_gpu[place]

    def _changed(self, event: str, value: Mapping[str, Any]) -> None:
        claim = RESOURCE_CLAIMS.from_json(value)
        for place, held in self._claims.pop(claim.metadata.uid, ()):
            self._on_gpu[place].discard(held)
            if event == "DELETED" or not value.get("status", {}).get("allocation"):
                self._note(place, f"{held.claim} loses {held.device}")
            if _problem(place, self._on_gpu[place]) is None:
                self.ill.pop(place, None)
        if event != "DELETED":
            self._put(claim)
        self._suspect = {place for place in self._suspect if self._on_gpu[place]}

    def _put(self, claim: ResourceClaim) -> None:
        taken = tuple(_taken(claim))
        self._claims[claim.metadata.uid] = taken
        for place, held in taken:
            self._on_gpu[place].add(held)
            self._note(place, f"{held.claim} has {held.device}")
            if held.claim in self._excused:
                self._suspect.add(place)
        for place in {place for place, _ in taken}:
            self._judge(place)

    def _judge(self, place: Place) -> None:
        problem = _problem(place, self._on_gpu[place])
        if problem is None or place in self.ill:
            return
        if place in self._suspect:
            self.ill[place] = problem
        else:
            self.wrong.append("\n".join([problem, *self._history[place]]))


def _taken(claim: ResourceClaim) -> Iterator[tuple[Place, Held]]:
    """Without what an admin looks at."""
    for result in allocation.results(claim, DRIVER):
        if not result.admin_access:
            place = Place(names.node_of_pool(result.pool), _slot(result))
            yield place, Held(claim.metadata.name, result.device, result.pool)


def _shown(device: Mapping[str, Any]) -> str:
    mark = "-" if device.get("taints") else ""
    return f"{mark}{device['name']}{'*' if 'consumesCounters' in device else ''}"


def _slot(result: AllocationResult) -> int:
    slot = names.slot_of_device(result.device)
    assert slot is not None, result
    return slot


def _problem(place: Place, held: set[Held]) -> str | None:
    gpu = board(MODEL, place.slot)
    devices = Counter(one.device for one in held)
    fit = can_be_held_together(gpu, [of_device(gpu, device) for device in devices])
    shared = {Sharing.TIME_SLICING, Sharing.MPS}
    few = all(
        count <= (CLIENTS if names.sharing_of_device(device) in shared else 1) for device, count in devices.items()
    )
    one_pool = len({one.pool for one in held}) <= 1
    return None if fit and few and one_pool else f"GPU {place.slot} of {place.node} is held by {sorted(held)}"
