"""A pool of GPUs as ResourceSlices.

Each GPU has a slice of its own and the counter sets have theirs, whether they are used or not, so that a GPU changes
what it offers by one atomic write, without a new generation of the pool.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gpusharing.core.offers import counters
from gpusharing.core.offers.devices import devices
from gpusharing.core.offers.entries import Entry
from gpusharing.core.offers.offered import OfferedGpu

# Limit of resource.k8s.io/v1.
_COUNTER_SETS_PER_SLICE: Final = 8


class PublishedGpu(NamedTuple):
    offered: OfferedGpu
    entries: Sequence[Entry]


def slice_specs(
    gpus: Sequence[PublishedGpu], *, node: str, pool: str, driver: str, generation: int
) -> list[dict[str, Any]]:
    """The whole pool, in the order in which the scheduler shall fill it."""
    ordered = sorted(gpus, key=lambda gpu: gpu.offered.gpu.slot)
    contents: list[dict[str, Any]] = [
        {"sharedCounters": [counters.counter_set(gpu.offered.gpu) for gpu in chunk]} for chunk in _chunks(ordered)
    ]
    # As the API server keeps it: without a list that is empty.
    contents += [{"devices": found} if (found := devices(*gpu)) else {} for gpu in ordered]
    told = {"name": pool, "generation": generation, "resourceSliceCount": len(contents)}
    return [{"driver": driver, "nodeName": node, "pool": told, **content} for content in contents]


def _chunks(gpus: Sequence[PublishedGpu]) -> list[Sequence[PublishedGpu]]:
    return [gpus[start : start + _COUNTER_SETS_PER_SLICE] for start in range(0, len(gpus), _COUNTER_SETS_PER_SLICE)]
