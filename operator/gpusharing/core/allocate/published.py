"""Devices as they are published."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gpusharing import cel
from gpusharing.api import names
from gpusharing.core.allocate.room import Room
from gpusharing.core.quantities import billionths

DeviceId = tuple[str, str, str]
"""Driver, pool, device."""
PoolId = tuple[str, str]
Amounts = Mapping[str, int]
Value = tuple[str, Any] | None
"""Kind and value of an attribute; None of a kind that constraints cannot compare."""

_KINDS: Final = ("string", "int", "bool", "version")


class Taint(NamedTuple):
    key: str
    value: str
    effect: str


class Consumption(NamedTuple):
    counter_set: str
    counters: Amounts


class Device:
    """One device of a ResourceSlice. Compared by identity."""

    __slots__ = (
        "_as_cel",
        "consumes",
        "id",
        "is_shared",
        "pool",
        "room",
        "shape",
        "slice",
        "taints",
        "value",
    )

    def __init__(
        self,
        value: Mapping[str, Any],
        slice_: Mapping[str, Any],
        *,
        room: Room,
        shape: int,
        taints: tuple[Taint, ...],
    ) -> None:
        """`value` as in `slice_`, the spec of a ResourceSlice. Devices that selectors hardly ever tell apart have the
        same `shape`."""
        self.value = value
        self.slice = slice_
        self.pool: PoolId = slice_["driver"], slice_["pool"]["name"]
        self.id: DeviceId = (*self.pool, value["name"])
        self.is_shared = bool(value.get("allowMultipleAllocations"))
        self.room = room
        self.shape = shape
        self.taints = taints
        self.consumes = tuple(
            Consumption(one["counterSet"], _amounts(one["counters"])) for one in value.get("consumesCounters") or ()
        )
        self._as_cel: cel.Device | None = None

    @property
    def as_cel(self) -> cel.Device:
        if self._as_cel is None:
            self._as_cel = seen_by_cel(self, self.value.get("attributes") or {})
        return self._as_cel

    @property
    def reserved_by(self) -> str | None:
        """The policy for whose tenants alone it is. Others may name their pools as they like."""
        driver, pool = self.pool
        return names.policy_of_pool(pool) if driver == names.DRIVER else None

    def attribute(self, name: str) -> tuple[bool, Value]:
        """Whether it has it, and what it is. `name` is as constraints have it, with its domain."""
        attributes: Mapping[str, Mapping[str, Any]] = self.value.get("attributes") or {}
        entry = attributes.get(name)
        if entry is None:
            domain, _, short = name.partition("/")
            entry = attributes.get(short) if domain == self.id[0] else None
        if entry is None:
            return False, None
        return True, next(((kind, entry[kind]) for kind in _KINDS if entry.get(kind) is not None), None)


def seen_by_cel(device: Device, attributes: Mapping[str, Mapping[str, Any]]) -> cel.Device:
    """With these attributes in place of its own."""
    return cel.Device(device.id[0], attributes, device.value.get("capacity") or {}, device.is_shared)


def read_taints(taints: Any) -> tuple[Taint, ...]:
    """Those that keep claims from a device."""
    return tuple(
        Taint(one.get("key") or "", one.get("value") or "", one["effect"])
        for one in taints or ()
        if one.get("effect") in {"NoSchedule", "NoExecute"}
    )


def counter_sets(slice_: Mapping[str, Any]) -> list[tuple[str, Amounts]]:
    return [(one["name"], _amounts(one["counters"])) for one in slice_.get("sharedCounters") or ()]


def _amounts(counters: Mapping[str, Mapping[str, Any]]) -> Amounts:
    return {name: billionths(str(counter["value"])) for name, counter in counters.items()}
