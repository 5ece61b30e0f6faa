"""How much of a device there is, and how much of it a request takes: capacities and their request policies.

All amounts are in billionths: the API server keeps nothing finer.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gpusharing.core.quantities import billionths

Amounts = Mapping[str, int]

FIRST_WITH_FRACTIONS: Final = 38
"""The first minor version of Kubernetes that by default counts steps of a range in thousandths. Before, everything is
rounded up to whole numbers first. 1.37 does so only if told that no component is older than itself."""
FIRST_WITHOUT_NEGATIVE_AMOUNTS: Final = 37
"""The first minor version of Kubernetes that stops at an amount below zero. An API server of today takes none."""

_ONE: Final = 10**9
_THOUSANDTH: Final = 10**6
_MOST: Final = 2**63 - 1


class RequestError(Exception):
    """An amount for which Kubernetes stops the whole pod."""


class _Range(NamedTuple):
    least: int | None
    most: int | None
    step: int | None


class _Capacity(NamedTuple):
    value: int
    default: int | None
    values: tuple[int, ...] | None
    range: _Range | None


class Demand(NamedTuple):
    """What a request takes of each capacity of a device."""

    amounts: Amounts
    unknown: str | None = None
    """A capacity that the device does not have."""
    too_much: str | None = None
    """A capacity of which the device never gives so much."""

    @property
    def can_ever_fit(self) -> bool:
        return self.unknown is None and self.too_much is None


class Room:
    """The capacities of a device. Devices that have the same share one."""

    __slots__ = ("_capacities", "values")

    def __init__(self, capacity: Mapping[str, Mapping[str, Any]]) -> None:
        self._capacities = {name: _read(entry) for name, entry in capacity.items()}
        self.values: Amounts = {name: capacity.value for name, capacity in self._capacities.items()}

    def demand(self, asked: Amounts, minor: int) -> Demand:
        """Raises RequestError for an amount that cannot be counted in steps."""
        unknown = next((name for name in asked if name not in self._capacities), None)
        if unknown is not None:
            return Demand({}, unknown=unknown)
        by_thousandths = minor >= FIRST_WITH_FRACTIONS
        amounts = {
            name: _taken(capacity, asked.get(name), by_thousandths=by_thousandths)
            for name, capacity in self._capacities.items()
        }
        if minor >= FIRST_WITHOUT_NEGATIVE_AMOUNTS and any(amount < 0 for amount in amounts.values()):
            raise RequestError("the amount of a capacity is negative")
        for name, capacity in self._capacities.items():
            if amounts[name] > capacity.value or _violates(amounts[name], capacity, by_thousandths=by_thousandths):
                return Demand(amounts, too_much=name)
        return Demand(amounts)

    def most(self, name: str) -> int:
        """That one request can ever get of a capacity."""
        capacity = self._capacities[name]
        limit = capacity.range.most if capacity.range else capacity.values[-1] if capacity.values else None
        return capacity.value if limit is None else min(capacity.value, limit)


def _read(entry: Mapping[str, Any]) -> _Capacity:
    policy: Mapping[str, Any] = entry.get("requestPolicy") or {}
    limits: Mapping[str, Any] | None = policy.get("validRange")
    values = policy.get("validValues")
    return _Capacity(
        value=billionths(str(entry["value"])),
        default=_optional(policy.get("default")),
        values=tuple(billionths(str(value)) for value in values) if values else None,
        range=_Range(*(_optional(limits.get(name)) for name in ("min", "max", "step"))) if limits else None,
    )


def _optional(quantity: Any) -> int | None:
    return None if quantity is None else billionths(str(quantity))


def _taken(capacity: _Capacity, asked: int | None, *, by_thousandths: bool) -> int:
    if asked is None:
        return capacity.value if capacity.default is None else capacity.default
    if capacity.range is not None and capacity.range.least is not None:
        return _rounded_up(asked, capacity.range, by_thousandths=by_thousandths)
    if capacity.values is not None:
        return next((value for value in capacity.values if asked <= value), asked)
    return asked


def _rounded_up(asked: int, limits: _Range, *, by_thousandths: bool) -> int:
    least = limits.least or 0
    if asked < least:
        return least
    if limits.step is None:
        return asked
    unit = _unit(limits, by_thousandths=by_thousandths)
    if by_thousandths and (asked > _MOST * unit or (unit == _THOUSANDTH and asked % unit)):
        raise RequestError("the requested amount cannot be counted in steps of the device")
    least, step = _whole(least, unit), _whole(limits.step, unit)
    found = least + step * _whole(_whole(asked, unit) - least, step)
    if by_thousandths and found > _MOST:
        raise RequestError("the requested amount, rounded up to the next step, is too large")
    return found * unit


def _violates(amount: int, capacity: _Capacity, *, by_thousandths: bool) -> bool:
    if amount == capacity.default:
        return False
    limits = capacity.range
    if limits is None:
        return capacity.values is not None and amount not in capacity.values
    if limits.most is not None and amount > limits.most:
        return True
    if limits.step is None:
        return False
    unit = _unit(limits, by_thousandths=by_thousandths)
    if unit == _THOUSANDTH and amount % unit:
        return True
    return (_whole(amount, unit) - _whole(limits.least or 0, unit)) % _whole(limits.step, unit) != 0


def _unit(limits: _Range, *, by_thousandths: bool) -> int:
    """What the limits are counted in: thousandths if all of them are some."""
    given = [amount for amount in limits if amount is not None]
    fit = all(amount % _THOUSANDTH == 0 and amount // _THOUSANDTH <= _MOST for amount in given)
    return _THOUSANDTH if by_thousandths and fit else _ONE


def _whole(amount: int, unit: int) -> int:
    """Rounded up."""
    return -(-amount // unit)
