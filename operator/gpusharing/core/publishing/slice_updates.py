"""How the slices in the API become a pool that we publish: the fewest writes, and never a mix of two generations."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.dra import ResourceSlice


@dataclass(frozen=True, slots=True)
class Create:
    name: str
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Update:
    before: ResourceSlice
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Delete:
    before: ResourceSlice


@dataclass(frozen=True, slots=True)
class PoolPlan:
    generation: int
    writes: tuple[Create | Update | Delete, ...]


def slice_name(index: int, *, pool: str, driver: str) -> str:
    """The scheduler fills slices in the order of their names."""
    policy = names.policy_of_pool(pool)
    return f"{index:05x}-{f'{policy}-' if policy else ''}{driver}-{names.node_of_pool(pool)}"


def is_ours(slice_: ResourceSlice, *, driver: str) -> bool:
    """By its name: another driver that calls itself as ours does lets the API server invent names."""
    index, pool = slice_.metadata.name[:5], slice_.spec.get("pool", {}).get("name", "")
    return _INDEX.fullmatch(index) is not None and slice_.metadata.name == slice_name(
        int(index, 16), pool=pool, driver=driver
    )


def plan_pool(
    existing: Sequence[ResourceSlice],
    specs_at: Callable[[int], Sequence[dict[str, Any]]],
    *,
    pool: str,
    driver: str,
    last_generation: int,
) -> PoolPlan:
    """`existing` are those of this pool. Where the same slices are there, only those that differ are written, each by
    itself. Where slices are missing or too many, nobody knows what the others belong to, and a device that goes from
    one to the other would be in both of them or in none: everything is written as a new generation, which replaces the
    old one for the scheduler as soon as it is complete."""
    by_name = {slice_.metadata.name: slice_ for slice_ in existing}
    generation = max([last_generation, *(_generation(slice_) for slice_ in existing)])
    wanted = {
        slice_name(index, pool=pool, driver=driver): spec for index, spec in enumerate(specs_at(max(generation, 1)))
    }
    is_another_layout = by_name.keys() != wanted.keys() or _moves_devices(by_name, wanted)
    if generation == 0 or is_another_layout or any(_generation(slice_) != generation for slice_ in existing):
        if not wanted and not existing:
            return PoolPlan(generation, ())
        generation += 1
        wanted = {slice_name(index, pool=pool, driver=driver): spec for index, spec in enumerate(specs_at(generation))}
    deletes = [Delete(slice_) for name, slice_ in sorted(by_name.items()) if name not in wanted]
    updates = [
        Update(by_name[name], _keeping_times(spec, by_name[name].spec))
        for name, spec in wanted.items()
        if name in by_name and not _is_stored(spec, by_name[name].spec)
    ]
    creates = [Create(name, spec) for name, spec in wanted.items() if name not in by_name]
    return PoolPlan(generation, (*deletes, *updates, *creates))


def _moves_devices(existing: Mapping[str, ResourceSlice], wanted: Mapping[str, dict[str, Any]]) -> bool:
    stands = {device: name for name, slice_ in existing.items() for device in _devices(slice_.spec)}
    return any(stands.get(device, name) != name for name, spec in wanted.items() for device in _devices(spec))


def _devices(spec: dict[str, Any]) -> Iterator[str]:
    return (device["name"] for device in spec.get("devices") or ())


def _keeping_times(spec: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """With the times of taints that stay: how long one is tolerated counts from then."""
    since = {
        (device["name"], taint["key"], taint["effect"]): taint[_ADDED]
        for device in before.get("devices") or ()
        for taint in device.get("taints") or ()
        if _ADDED in taint
    }
    kept = copy.deepcopy(spec)
    for device in kept.get("devices") or ():
        for taint in device.get("taints") or ():
            if (device["name"], taint["key"], taint["effect"]) in since:
                taint[_ADDED] = since[device["name"], taint["key"], taint["effect"]]
    return kept


def _generation(slice_: ResourceSlice) -> int:
    return int(slice_.spec.get("pool", {}).get("generation", 0))


_INDEX: Final = re.compile("[0-9a-f]{5}")
# By the API server, to taints.
_ADDED: Final = "timeAdded"
_BINARY_SUFFIXES: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BINARY_QUANTITY: Final = re.compile(r"([1-9][0-9]*)([KMGTP]i)")


def _is_stored(sent: Any, stored: Any) -> bool:
    """Whether this is what the API server made of what is sent: amounts in its own way, and times of taints beside."""
    # All of it at once, or no more than the parts of it that differ: a node's devices say thousands of things.
    if sent == stored:
        return True
    if isinstance(sent, dict) and isinstance(stored, dict):
        return sent.keys() == stored.keys() - {_ADDED} and all(_is_stored(sent[key], stored[key]) for key in sent)
    if isinstance(sent, list) and isinstance(stored, list):
        return len(sent) == len(stored) and all(map(_is_stored, sent, stored))
    return isinstance(sent, str) and _in_largest_unit(sent) == stored


def _in_largest_unit(amount: str) -> str:
    """40960Mi as 40Gi."""
    match = _BINARY_QUANTITY.fullmatch(amount)
    if match is None:
        return amount
    number, suffix = int(match[1]), match[2]
    while number % 1024 == 0 and suffix != _BINARY_SUFFIXES[-1]:
        number, suffix = number // 1024, _BINARY_SUFFIXES[_BINARY_SUFFIXES.index(suffix) + 1]
    return f"{number}{suffix}"
