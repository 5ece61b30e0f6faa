"""A pool of GPUs as ResourceSlices.

The scheduler pays for each slice, on each node, for each pod. So there are as few as have room for everything that
their GPUs may come to publish. No GPU is in two of them, and none moves while the offers are the same: so a GPU changes
what it publishes by one atomic write, without a new generation of the pool.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.core.devices import counters, options
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.devices.options import Option
from gpusharing.core.publishing.devices import devices
from gpusharing.core.publishing.entries import DEVICES_PER_SLICE, Entry, Standing
from gpusharing.core.publishing.menu import menu

# Limit of resource.k8s.io/v1.
_COUNTER_SETS_PER_SLICE: Final = 8


class PublishedGpu(NamedTuple):
    offered: OfferedGpu
    entries: Sequence[Entry]

    @property
    def slot(self) -> int:
        return self.offered.gpu.slot

    @property
    def entries_of_slot(self) -> Sequence[Entry]:
        """Without those of another GPU, which nobody could describe."""
        return [entry for entry in self.entries if names.slot_of_device(entry.device) == self.slot]


def slice_specs(
    gpus: Sequence[PublishedGpu], *, node: str, pool: str, driver: str, generation: int
) -> list[dict[str, Any]]:
    """The whole pool, in the order in which the scheduler shall fill it."""
    ordered = sorted(gpus, key=lambda gpu: gpu.slot)
    at_most = {gpu.slot: _at_most(gpu) for gpu in ordered}
    contents: list[dict[str, Any]] = []
    if not all(options.can_be_held_together(gpu.offered.gpu, at_most[gpu.slot]) for gpu in ordered):
        contents += [
            {"sharedCounters": [counters.counter_set(gpu.offered.gpu) for gpu in chunk]}
            for chunk in _chunks(ordered, _COUNTER_SETS_PER_SLICE)
        ]
    for chunk in _with_room(ordered, {slot: len(found) for slot, found in at_most.items()}):
        found = [device for gpu in sorted(chunk, key=_turn) for device in devices(gpu.offered, gpu.entries_of_slot)]
        # As the API server keeps it: without a list that is empty.
        contents.append({"devices": _first_of_each_kind_first(found)} if found else {})
    told = {"name": pool, "generation": generation, "resourceSliceCount": len(contents)}
    return [{"driver": driver, "nodeName": node, "pool": told, **content} for content in contents]


def _at_most(gpu: PublishedGpu) -> Sequence[Option]:
    """Everything that it may come to publish: what is offered, and what is still there of what was."""
    still = [options.of_device(gpu.offered.gpu, entry.device) for entry in gpu.entries_of_slot]
    # Under whichever names.
    there = {names.read_device(option.device) for option in still}
    return [*(option for option in menu(gpu.offered) if names.read_device(option.device) not in there), *still]


def _turn(gpu: PublishedGpu) -> tuple[int, int]:
    """The scheduler takes the first that fits. GPUs that are in use already are filled up first; whoever wants a whole
    one then meets those that are nothing else before the counters of the menu."""
    opened = {names.sharing_of_device(entry.device) for entry in gpu.entries_of_slot if entry.standing is Standing.OPEN}
    return (0 if Sharing.EXCLUSIVE not in opened else 1 if len(gpu.entries) == 1 else 2), gpu.slot


def _first_of_each_kind_first(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The scheduler looks at every device before the one that fits. So nobody has to pass all of another kind."""
    kinds: set[tuple[Sharing, int | None]] = set()
    first: list[Mapping[str, Any]] = []
    others: list[Mapping[str, Any]] = []
    for device in found:
        name = names.read_device(device["name"])
        kind = name and (name.sharing, name.place.profile_id if name.place else None)
        if kind is None or kind in kinds or "taints" in device:
            others.append(device)
        else:
            kinds.add(kind)
            first.append(device)
    return first + others


def _with_room(gpus: Sequence[PublishedGpu], needed: Mapping[int, int]) -> list[Sequence[PublishedGpu]]:
    """As few as hold what is needed for each slot, with the same number of GPUs in each."""
    chunks: list[Sequence[PublishedGpu]] = []
    for number in range(1, len(gpus) + 1):
        chunks = _chunks(gpus, math.ceil(len(gpus) / number))
        if max(sum(needed[gpu.slot] for gpu in chunk) for chunk in chunks) <= DEVICES_PER_SLICE:
            break
    return chunks


def _chunks(gpus: Sequence[PublishedGpu], size: int) -> list[Sequence[PublishedGpu]]:
    return [gpus[start : start + size] for start in range(0, len(gpus), size)]
