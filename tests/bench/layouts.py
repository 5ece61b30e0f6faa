"""What 100 nodes with 8 GPUs publish: as our agents do, and as it would be without them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from building.boards import board, profile_names
from core.narrowing.test_narrowing import HOUR, Node
from gpusharing.api.names import GROUP, read_device
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.offers import (
    ExclusiveOffer,
    MigOffer,
    MpsMemory,
    MpsOffer,
    MpsThreads,
    Offers,
    TimeSlicingOffer,
)
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing.devices import full_menu
from gpusharing.core.publishing.entries import Entry
from gpusharing.core.publishing.slices import PublishedGpu, slice_specs

NODES: Final = tuple(f"node-{number:02d}" for number in range(100))
GPUS: Final = 8
IN_USE: Final = range(GPUS // 2)
DRIVER: Final = "gpu.nvidia.com"
MOST_SHARES: Final = 16

_MODEL: Final = "H100-80GB"
_POLICY: Final = PolicyReference(name="production-sharing", generation=1)
_EXCLUSIVE: Final = Offers(exclusive=ExclusiveOffer())
_TIME_SLICING: Final = Offers(time_slicing=TimeSlicingOffer(max_clients=MOST_SHARES))
_EVERYTHING: Final = Offers(
    exclusive=ExclusiveOffer(),
    time_slicing=_TIME_SLICING.time_slicing,
    mps=MpsOffer(max_clients=8, memory=MpsMemory(default="8Gi"), threads=MpsThreads(default=25, min=5)),
    mig=MigOffer(profiles=("1g.10gb", "3g.40gb")),
)

Slices = list[dict[str, Any]]


@dataclass(frozen=True)
class Layout:
    """The slices of a node whose lower half of GPUs is in use."""

    name: str
    held: str
    """The device that is held of each of those."""
    ours: bool
    """Else it is published by somebody else, and asked for by classes that know nothing of us."""
    offers: Offers
    counted: bool = False
    """With everything on every GPU, in use or not."""

    def slices(self, node: str) -> Slices:
        gpus = [_offered(self.offers, slot) for slot in range(GPUS)]
        if self.ours:
            return _specs([PublishedGpu(gpu, entries) for gpu, entries in self._narrowed(gpus)], node)
        everything = _without_us(_specs([PublishedGpu(gpu, full_menu(gpu)) for gpu in gpus], node))
        return _in_slices_of_their_own(everything) if self.counted else [_in_one_slice(everything)]

    def _narrowed(self, gpus: Sequence[OfferedGpu]) -> Iterable[tuple[OfferedGpu, tuple[Entry, ...]]]:
        """What an agent publishes when nothing has changed for hours."""
        agent = Node(list(gpus))
        agent.look()
        agent.approved = {entry.device for gpu in gpus for entry in full_menu(gpu)}
        agent.prepare(*(self.held.format(slot) for slot in IN_USE))
        for _ in range(4):
            agent.wait(HOUR)
        for gpu in gpus:
            publication = agent.publications[gpu.gpu.slot]
            yield gpu, publication.entries if publication else ()


WHOLE, SHARE = "gpu-{}", "gpu-{}-timeslicing"

PLAIN_WHOLE = Layout("whole GPUs, without us", WHOLE, ours=False, offers=_EXCLUSIVE)
OUR_WHOLE = Layout("whole GPUs, ours", WHOLE, ours=True, offers=_EXCLUSIVE)
PLAIN_SHARES = Layout("time-sliced GPUs, without us", SHARE, ours=False, offers=_TIME_SLICING)
OUR_SHARES = Layout("time-sliced GPUs, ours", SHARE, ours=True, offers=_TIME_SLICING)
EVERY_MODE = Layout("all modes, ours", SHARE, ours=True, offers=_EVERYTHING)
DYNAMIC_MIG = Layout(
    "NVIDIA's dynamic MIG",
    WHOLE,
    ours=False,
    offers=Offers(exclusive=ExclusiveOffer(), mig=MigOffer(profiles=profile_names(board(_MODEL)))),
    counted=True,
)


def _offered(offers: Offers, slot: int) -> OfferedGpu:
    gpu = board(_MODEL, slot, addressing_mode="HMM", pcie_root=f"pci0000:{slot // 2:02x}", numa_node=slot // 4)
    return OfferedGpu(gpu=gpu, offers=offers, policy=_POLICY, configured=True)


def _specs(gpus: Sequence[PublishedGpu], node: str) -> Slices:
    own = [
        gpu._replace(offered=replace(gpu.offered, gpu=replace(gpu.offered.gpu, uuid=f"GPU-{node}-{slot:025d}")))
        for slot, gpu in enumerate(gpus)
    ]
    return slice_specs(own, node=node, pool=node, driver=DRIVER, generation=1)


def _without_us(slices: Slices) -> Slices:
    for slice_ in slices:
        for device in slice_.get("devices", ()):
            device["attributes"] = {
                name: value for name, value in device["attributes"].items() if not name.startswith(GROUP)
            }
    return slices


def _in_one_slice(slices: Slices) -> dict[str, Any]:
    """As NVIDIA's driver has it where nothing excludes anything."""
    return {**slices[-1], "pool": slices[-1]["pool"] | {"resourceSliceCount": 1}, "devices": _devices(slices)}


def _in_slices_of_their_own(slices: Slices) -> Slices:
    """As NVIDIA's driver has it where GPUs are cut on demand: the counters, then each GPU by itself."""
    counters = [slice_ for slice_ in slices if "sharedCounters" in slice_]
    by_gpu = groupby(_devices(slices), key=_slot)
    found = [*counters, *({**slices[-1], "devices": list(devices)} for _, devices in by_gpu)]
    return [{**slice_, "pool": slice_["pool"] | {"resourceSliceCount": len(found)}} for slice_ in found]


def _slot(device: dict[str, Any]) -> int:
    name = read_device(device["name"])
    assert name
    return name.slot


def _devices(slices: Slices) -> list[dict[str, Any]]:
    return [device for slice_ in slices for device in slice_.get("devices", ())]
