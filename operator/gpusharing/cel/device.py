"""A device as CEL sees it: read once from its ResourceSlice, then asked by many programs."""

from collections.abc import Mapping
from functools import lru_cache
from sys import intern
from typing import Any, Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime.lists import AttributeList
from gpusharing.cel.runtime.maps import AttributeMap, CapacityMap, DomainMap
from gpusharing.cel.values import quantity, semver

_LONGEST_DRIVER: Final = 63
_LONGEST_DOMAIN: Final = 63
_LONGEST_ID: Final = 32
_LONGEST_VALUE: Final = 64
_MOST_ATTRIBUTES_AND_CAPACITIES: Final = 32
_MOST_LIST_VALUES: Final = 48
_LISTS: Final = ("ints", "bools", "strings", "versions")

# The devices of a cluster have few different ones between them, and never change them.
_parse_version: Final = lru_cache(1024)(semver.parse)
_parse_quantity: Final = lru_cache(1024)(quantity.parse)


class Device:
    """Immutable. `attributes` and `capacity` are those of a ResourceSlice's device, by name or domain/name:
    {"string" | "int" | "bool" | "version" | "strings" | "ints" | "bools" | "versions": value} and {"value": "80Gi"}.

    A device that Kubernetes cannot hand to CEL has a defect, and every evaluation on it is an EvaluationError.
    """

    __slots__ = (
        "allow_multiple_allocations",
        "attributes",
        "capacity",
        "defect",
        "driver",
        "has_lists",
        "is_within_limits",
    )

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, Mapping[str, Any]],
        capacity: Mapping[str, Mapping[str, Any]],
        allow_multiple_allocations: bool = False,
    ) -> None:
        self.driver = intern(driver)
        self.allow_multiple_allocations = allow_multiple_allocations
        self.attributes = DomainMap()
        self.capacity = DomainMap()
        self.defect: str | None = None
        self.has_lists = False
        self.is_within_limits = (
            len(driver) <= _LONGEST_DRIVER and len(attributes) + len(capacity) <= _MOST_ATTRIBUTES_AND_CAPACITIES
        )
        """Of the ResourceSlice API: what an expression costs at most is known only for such devices."""
        self._bind_attributes(attributes)
        self._bind_capacity(capacity)

    def with_own_quantities(self) -> "Device":
        """For an evaluation that may change quantities, or that sees whether another one did."""
        device = self._copy()
        device.capacity = DomainMap(
            (domain, CapacityMap((name, value.copy()) for name, value in of_domain.items()))
            for domain, of_domain in self.capacity.items()
        )
        return device

    def without_lists(self) -> "Device":
        """As Kubernetes before 1.36 sees it: it does not know attributes that are lists."""
        device = self._copy()
        without = (
            (
                domain,
                AttributeMap((name, value) for name, value in of_domain.items() if type(value) is not AttributeList),
            )
            for domain, of_domain in self.attributes.items()
        )
        device.attributes = DomainMap((domain, of_domain) for domain, of_domain in without if of_domain)
        device.has_lists = False
        return device

    def as_map(self) -> dict[str, Any]:
        """`device` where an expression does not select from it."""
        return {
            "driver": self.driver,
            "allowMultipleAllocations": self.allow_multiple_allocations,
            "attributes": self.attributes,
            "capacity": self.capacity,
        }

    def _bind_attributes(self, attributes: Mapping[str, Mapping[str, Any]]) -> None:
        list_values = 0
        for qualified_name, attribute in attributes.items():
            domain, name = self._split(qualified_name)
            try:
                value = _value(attribute)
            except EvaluationError as error:
                self.defect = self.defect or f"attribute {qualified_name}: {error.message}"
                continue
            if type(value) is AttributeList:
                list_values += len(value)
                self.has_lists = True
            self._check_length(value)
            if domain not in self.attributes:
                self.attributes[domain] = AttributeMap()
            self.attributes[domain][name] = value
        if list_values > _MOST_LIST_VALUES:
            self.is_within_limits = False

    def _bind_capacity(self, capacity: Mapping[str, Mapping[str, Any]]) -> None:
        for qualified_name, entry in capacity.items():
            domain, name = self._split(qualified_name)
            try:
                value = _parse_quantity(str(entry["value"]).strip())
            except EvaluationError as error:
                self.defect = self.defect or f"capacity {qualified_name}: {error.message}"
                continue
            if domain not in self.capacity:
                self.capacity[domain] = CapacityMap()
            self.capacity[domain][name] = value

    def _split(self, qualified_name: str) -> tuple[str, str]:
        domain, slash, name = qualified_name.partition("/")
        if not slash:
            domain, name = self.driver, qualified_name
        if len(domain) > _LONGEST_DOMAIN or len(name) > _LONGEST_ID:
            self.is_within_limits = False
        return intern(domain), intern(name)

    def _check_length(self, value: Any) -> None:
        if type(value) is AttributeList:
            for one in value:
                self._check_length(one)
        elif type(value) is str and len(value) > _LONGEST_VALUE:
            self.is_within_limits = False

    def _copy(self) -> "Device":
        device: Device = object.__new__(Device)
        for name in Device.__slots__:
            setattr(device, name, getattr(self, name))
        return device


def _value(attribute: Mapping[str, Any]) -> Any:
    # Nearly all have one value, and there are tens of thousands of them.
    for kind in _KINDS if len(attribute) > 1 else attribute:
        value = attribute.get(kind)
        if value is None:
            continue
        if kind in _PYTHON_TYPES:
            return _single(kind, value)
        if kind in _LISTS:
            return AttributeList(_single(kind[:-1], one) for one in value)
    raise EvaluationError("unsupported attribute value")


def _single(kind: str, value: Any) -> Any:
    given = type(value)
    if given is not _PYTHON_TYPES[kind]:
        raise EvaluationError(f"unsupported attribute value: {kind} {value!r}")
    match kind:
        case "string":
            return intern(value)
        case "version":
            try:
                return _parse_version(value)
            except EvaluationError as error:
                raise EvaluationError(f"parse semantic version: {error.message}") from None
    return value


_PYTHON_TYPES: Final = {"int": int, "bool": bool, "string": str, "version": str}
_KINDS: Final = (*_LISTS, *_PYTHON_TYPES)
"""In the order in which they count where there are several."""
