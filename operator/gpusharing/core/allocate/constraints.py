"""Constraints while devices come and go in the search for an allocation."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from gpusharing.core.allocate.published import Device, Value
from gpusharing.core.allocate.requests import Constraint, Wanted

LAST_WITH_ONE_VALUE_PER_REQUEST: Final = 36
"""The last minor version of Kubernetes that remembers, for distinctAttribute, one value of each request only, so that
devices of one request may share theirs."""


class Matching:
    """All devices have the same value."""

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self._value: Value = None
        self._count = 0

    def add(self, wanted: Wanted, device: Device) -> bool:
        """False: the device may not be added."""
        if not self.constraint.concerns(wanted):
            return True
        has, value = device.attribute(self.constraint.attribute)
        if not has:
            return False
        if self._count == 0:
            self._value = value
        elif value is None or value != self._value:
            return False
        self._count += 1
        return True

    def remove(self, wanted: Wanted) -> None:
        """The device that was added last."""
        if self.constraint.concerns(wanted):
            self._count -= 1

    def most(self, devices: Sequence[Device]) -> int:
        """No more of them can be added together."""
        values = [device.attribute(self.constraint.attribute)[1] for device in devices]
        if self._count:
            return values.count(self._value)
        return max(Counter(values).values(), default=0)


class Distinct:
    """No two devices have the same value."""

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self._values: list[Value] = []

    def add(self, wanted: Wanted, device: Device) -> bool:
        if not self.constraint.concerns(wanted):
            return True
        has, value = device.attribute(self.constraint.attribute)
        if not has or (value is None and self._values) or value in self._values:
            return False
        self._values.append(value)
        return True

    def remove(self, wanted: Wanted) -> None:
        if self.constraint.concerns(wanted):
            self._values.pop()

    def most(self, devices: Sequence[Device]) -> int:
        values = {device.attribute(self.constraint.attribute)[1] for device in devices}
        return len(values.difference(self._values))


class DistinctByRequest:
    """As it was up to Kubernetes 1.36."""

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self._values: dict[str, Value] = {}
        self._count = 0

    def add(self, wanted: Wanted, device: Device) -> bool:
        if not self.constraint.concerns(wanted):
            return True
        has, value = device.attribute(self.constraint.attribute)
        if not has:
            return False
        known = self._values.values()
        if self._count and ((value is None and known) or value in known):
            return False
        self._values[wanted.request] = value
        self._count += 1
        return True

    def remove(self, wanted: Wanted) -> None:
        if self.constraint.concerns(wanted):
            self._values.pop(wanted.request, None)
            self._count -= 1

    def most(self, devices: Sequence[Device]) -> int:
        return len(devices)


Constraining = Matching | Distinct | DistinctByRequest


def constraining(constraint: Constraint, minor: int) -> Constraining:
    if not constraint.is_distinct:
        return Matching(constraint)
    return DistinctByRequest(constraint) if minor <= LAST_WITH_ONE_VALUE_PER_REQUEST else Distinct(constraint)
