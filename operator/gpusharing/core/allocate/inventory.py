"""The ResourceSlices of a cluster, as the scheduler gathers them to the pools of each node."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gpusharing.api.dra import Node, ResourceSlice
from gpusharing.core.allocate.node_selectors import is_for
from gpusharing.core.allocate.published import (
    Amounts,
    Device,
    PoolId,
    Taint,
    counter_sets,
    read_taints,
)
from gpusharing.core.allocate.room import Room

QualifiedName = tuple[str, str]

FIRST_WITH_COMPATIBILITY_GROUPS: Final = 37
"""The first minor version of Kubernetes that knows them, and by default ignores slices that have them."""
LAST_WITH_COUNTERS_EVERYWHERE: Final = 36
"""The last minor version of Kubernetes to whose scheduler each slice with counters concerns every node."""

_MOST_VALUES: Final = 64
"""Of an attribute that does not tell each device from all others."""


class TaintRule(NamedTuple):
    """A DeviceTaintRule: devices that it names have the taint, too. None: it does not matter."""

    taint: Taint
    driver: str | None = None
    pool: str | None = None
    device: str | None = None

    def concerns(self, slice_: Mapping[str, Any], device: Mapping[str, Any]) -> bool:
        return (
            self.driver in {None, slice_["driver"]}
            and self.pool in {None, slice_["pool"]["name"]}
            and self.device in {None, device["name"]}
        )


def read_taint_rule(spec: Mapping[str, Any]) -> tuple[TaintRule, ...]:
    """None if it keeps no claim from a device. A rule without a selector concerns nothing, one with an empty selector
    everything."""
    selector = spec.get("deviceSelector")
    if selector is None:
        return ()
    where = (selector.get("driver"), selector.get("pool"), selector.get("device"))
    return tuple(TaintRule(taint, *where) for taint in read_taints([spec["taint"]]))


@dataclass(slots=True, eq=False)
class Pool:
    """What the scheduler may allocate from. Compared by identity."""

    id: PoolId
    devices: tuple[Device, ...] = ()
    """Of the slices that concern the node, in their order."""
    others: tuple[Device, ...] = ()
    """Of those that do not: they use up the same counters."""
    counters: Mapping[str, Amounts] = field(default_factory=dict)
    """By counter set."""


class Invalid(NamedTuple):
    reason: str


class _Incomplete:
    """Slices of it are missing."""


INCOMPLETE: Final = _Incomplete()
_Built = Pool | Invalid | _Incomplete | None


@dataclass(slots=True, eq=False)
class NodePools:
    """What one node has."""

    devices: tuple[Device, ...]
    """Those that can be allocated, in the order in which the scheduler considers them."""
    pools: Mapping[PoolId, Pool]
    elsewhere: frozenset[Device]
    """Devices in slices of the node that are for other nodes."""
    incomplete: tuple[PoolId, ...]
    """Pools that are being updated: nothing of them is allocated."""
    invalid: Mapping[PoolId, str]
    """Likewise, with the reason."""


class _Slice:
    """A slice with its devices."""

    __slots__ = ("devices", "is_ignored", "name", "spec")

    def __init__(self, name: str, spec: Mapping[str, Any]) -> None:
        self.name = name
        self.spec = spec
        self.devices: tuple[Device, ...] = ()
        self.is_ignored = False

    @property
    def pool(self) -> PoolId:
        return self.spec["driver"], self.spec["pool"]["name"]

    @property
    def generation(self) -> int:
        return int(self.spec["pool"].get("generation") or 0)

    @property
    def count(self) -> int:
        return int(self.spec["pool"]["resourceSliceCount"])

    @property
    def has_counters(self) -> bool:
        return bool(self.spec.get("sharedCounters"))

    @property
    def is_by_device(self) -> bool:
        return bool(self.spec.get("perDeviceNodeSelection"))

    def concerns(self, node: Node) -> bool:
        if self.is_by_device:
            return any(is_for(node, device) for device in self.spec.get("devices") or ())
        return is_for(node, self.spec)


class Inventory:
    """All slices, indexed once. What belongs to a node is gathered when it is asked for.

    `rules`: none where Kubernetes does not follow them, as 1.36 by default.
    """

    def __init__(self, slices: Iterable[ResourceSlice], *, minor: int, rules: Sequence[TaintRule] = ()) -> None:
        self.minor = minor
        self._of_pool: defaultdict[PoolId, list[_Slice]] = defaultdict(list)
        self._of_node: defaultdict[str, list[_Slice]] = defaultdict(list)
        self._of_many_nodes: list[_Slice] = []
        self._nodes: dict[str, tuple[Node, NodePools]] = {}
        found = [_Slice(one.metadata.name, one.spec) for one in slices]
        found.sort(key=lambda one: one.name)
        described = _Describer(found, rules)
        self.individual = described.individual
        """Attributes that tell nearly every device from the others: selectors that read them have an answer for each
        device, and all others one for each shape."""
        for one in found:
            one.devices = described.devices(one.spec)
            one.is_ignored = minor >= FIRST_WITH_COMPATIBILITY_GROUPS and _has_compatibility_groups(one.spec)
            self._of_pool[one.pool].append(one)
            if one.is_ignored:
                continue
            if one.spec.get("nodeName"):
                self._of_node[one.spec["nodeName"]].append(one)
            else:
                self._of_many_nodes.append(one)
        self._unusable = dict(self._unusable_everywhere()) if minor <= LAST_WITH_COUNTERS_EVERYWHERE else {}

    def node(self, node: Node) -> NodePools:
        last, known = self._nodes.get(node.metadata.name, (None, None))
        if known is None or last is None or last.metadata.labels != node.metadata.labels:
            known = self._gathered(node)
            self._nodes[node.metadata.name] = node, known
        return known

    def _gathered(self, node: Node) -> NodePools:
        relevant: defaultdict[PoolId, list[_Slice]] = defaultdict(list)
        for one in self._of_node[node.metadata.name]:
            relevant[one.pool].append(one)
        for one in self._of_many_nodes:
            if one.concerns(node):
                relevant[one.pool].append(one)
        if self.minor <= LAST_WITH_COUNTERS_EVERYWHERE:
            for pool, some in relevant.items():
                some += [one for one in self._of_pool[pool] if one.has_counters and one not in some]
        built: dict[PoolId, _Built] = {pool: why for pool, why in self._unusable.items() if pool not in relevant}
        built |= {pool: self._build(pool, some) for pool, some in relevant.items()}
        usable = [one for _, one in sorted(built.items(), key=lambda item: item[0]) if isinstance(one, Pool)]
        # What has to be waited for comes last.
        usable.sort(key=_has_binding_conditions)
        elsewhere = frozenset(
            device
            for pool in usable
            for device in pool.devices
            if device.slice.get("perDeviceNodeSelection") and not is_for(node, device.value)
        )
        return NodePools(
            devices=tuple(device for pool in usable for device in pool.devices),
            pools={pool.id: pool for pool in usable},
            elsewhere=elsewhere,
            incomplete=tuple(pool for pool, why in built.items() if why is INCOMPLETE),
            invalid={pool: why.reason for pool, why in built.items() if isinstance(why, Invalid)},
        )

    def _build(self, pool: PoolId, relevant: Sequence[_Slice]) -> "_Built":
        newest = max(one.generation for one in relevant)
        mine = sorted((one for one in relevant if one.generation == newest), key=lambda one: one.name)
        everything = mine
        if len(mine) != mine[0].count:
            if any(one.generation > newest for one in self._of_pool[pool]):
                return None  # it is being replaced, by something that is not for this node
            everything = [one for one in self._of_pool[pool] if one.generation == newest and not one.is_ignored]
            if len(everything) != mine[0].count:
                return INCOMPLETE
        targeting = [one for one in mine if not one.has_counters]
        others = [one for one in everything if one not in mine and not one.has_counters]
        return _pool(pool, targeting, others, [one for one in everything if one.has_counters])

    def _unusable_everywhere(self) -> Iterator[tuple[PoolId, "_Built"]]:
        """Pools whose slices with counters alone are enough for every node to see that something is wrong."""
        for pool, slices in self._of_pool.items():
            if counting := [one for one in slices if one.has_counters]:
                built = self._build(pool, counting)
                if not isinstance(built, Pool):
                    yield pool, built


def _pool(
    pool: PoolId, targeting: Sequence[_Slice], others: Sequence[_Slice], counting: Sequence[_Slice]
) -> "Pool | Invalid":
    devices = tuple(device for one in targeting for device in one.devices)
    elsewhere = tuple(device for one in others for device in one.devices)
    sets = [each for one in counting for each in counter_sets(one.spec)]
    counters = dict(sets)
    if twice := _first_twice(device.id[2] for device in devices):
        return Invalid(f"duplicate device name {twice}")
    if twice := _first_twice(name for name, _ in sets):
        return Invalid(f"duplicate counter set name {twice}")
    for device in (*devices, *elsewhere):
        for counter_set, amounts in device.consumes:
            if counter_set not in counters:
                return Invalid(f"counter set {counter_set} not found")
            if missing := amounts.keys() - counters[counter_set].keys():
                return Invalid(f"counter {min(missing)} not found in counter set {counter_set}")
    return Pool(id=pool, devices=devices, others=elsewhere, counters=counters)


def _first_twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _has_binding_conditions(pool: Pool) -> bool:
    return any(device.value.get("bindingConditions") for device in pool.devices)


def _has_compatibility_groups(spec: Mapping[str, Any]) -> bool:
    return any(
        consumption.get("compatibilityGroups")
        for device in spec.get("devices") or ()
        for consumption in device.get("consumesCounters") or ()
    )


class _Describer:
    """Makes devices that share what they have in common."""

    def __init__(self, slices: Sequence[_Slice], rules: Sequence[TaintRule]) -> None:
        self._rules = rules
        self._shapes: dict[Any, int] = {}
        self._rooms: dict[str, Room] = {}
        self._names: dict[QualifiedName, QualifiedName] = {}
        self._described: dict[tuple[str, int], list[tuple[Room, int]]] = {}
        """Of lists of devices that slices of a driver have in common: the same objects, not only equal ones."""
        values: defaultdict[QualifiedName, set[Hashable]] = defaultdict(set)
        counted: set[tuple[str, int]] = set()
        for one in slices:
            driver = one.spec["driver"]
            if (key := (driver, id(one.spec.get("devices")))) in counted:
                continue
            counted.add(key)
            for device in one.spec.get("devices") or ():
                for name, entry in (device.get("attributes") or {}).items():
                    some = values[self._qualified(driver, name)]
                    if len(some) <= _MOST_VALUES:
                        some.add(_frozen(entry))
        self.individual = frozenset(name for name, some in values.items() if len(some) > _MOST_VALUES)

    def _qualified(self, driver: str, name: str) -> QualifiedName:
        key = (driver, name)
        known = self._names.get(key)
        if known is None:
            domain, slash, short = name.partition("/")
            known = self._names[key] = (domain, short) if slash else key
        return known

    def devices(self, spec: Mapping[str, Any]) -> tuple[Device, ...]:
        values = spec.get("devices") or ()
        key = (spec["driver"], id(values))
        described = self._described.get(key)
        if described is None:
            described = [(self._room(value), self._shape(spec["driver"], value)) for value in values]
            if values:
                self._described[key] = described
        return tuple(
            Device(value, spec, room=room, shape=shape, taints=self._taints(spec, value))
            for value, (room, shape) in zip(values, described, strict=True)
        )

    def _room(self, value: Mapping[str, Any]) -> Room:
        capacity = value.get("capacity") or {}
        key = repr(capacity)
        known = self._rooms.get(key)
        if known is None:
            known = self._rooms[key] = Room(capacity)
        return known

    def _shape(self, driver: str, value: Mapping[str, Any]) -> int:
        attributes = [
            (name, _frozen(entry))
            for name, entry in (value.get("attributes") or {}).items()
            if self._names[driver, name] not in self.individual
        ]
        capacity = [(name, entry["value"]) for name, entry in (value.get("capacity") or {}).items()]
        shared = bool(value.get("allowMultipleAllocations"))
        # Two names for one thing are told apart by their order.
        key = (driver, shared, tuple(attributes), tuple(capacity))
        return self._shapes.setdefault(key, len(self._shapes))

    def _taints(self, spec: Mapping[str, Any], value: Mapping[str, Any]) -> tuple[Taint, ...]:
        ruled = tuple(rule.taint for rule in self._rules if rule.concerns(spec, value))
        return (read_taints(value["taints"]) if value.get("taints") else ()) + ruled


def _frozen(entry: Mapping[str, Any]) -> Hashable:
    """An attribute, to compare it with others."""
    if len(entry) == 1:
        ((kind, value),) = entry.items()
        if type(value) is not list:
            return kind, value
    return repr(entry)
