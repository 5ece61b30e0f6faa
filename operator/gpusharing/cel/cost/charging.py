"""Ways to charge for a call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpusharing.cel.cost.prices import NEW_LIST, PER_CHARACTER, of_pattern, per_character
from gpusharing.cel.cost.shapes import ENDLESS_SIZE, Shape
from gpusharing.cel.cost.values import price_of_all_inside, size_of, size_of_content
from gpusharing.cel.runtime.faults import Breakdown
from gpusharing.cel.values.named_formats import NAMED_FORMATS, NamedFormat
from gpusharing.cel.values.network import Cidr, Ip
from gpusharing.cel.values.quantity import Quantity
from gpusharing.cel.values.semver import Semver
from gpusharing.cel.values.urls import Url


class Price(Protocol):
    def __call__(self, arguments: Sequence[Any], result: Any, /) -> int:
        """Of one call. The target is the first argument; what failed is an exception."""

    def at_most(self, arguments: Sequence[Shape], result: Shape, /) -> int:
        """Of any call with values that are no larger."""


@dataclass(frozen=True, slots=True)
class OfSizes:
    """Depends on the sizes of the arguments, and grows with them."""

    formula: Callable[..., int]
    measure: Callable[[Any], int]

    def __call__(self, arguments: Sequence[Any], _result: Any) -> int:
        return self.formula(*map(self.measure, arguments))

    def at_most(self, arguments: Sequence[Shape], _result: Shape) -> int:
        return self.formula(*(max(argument.length, 1) for argument in arguments))


@dataclass(frozen=True, slots=True)
class OfResult:
    formula: Callable[[int], int]

    def __call__(self, _arguments: Sequence[Any], result: Any) -> int:
        return self.formula(size_of(result))

    def at_most(self, _arguments: Sequence[Shape], result: Shape) -> int:
        return self.formula(max(result.length, 1))


class OfEquality:
    """Kubernetes' own values are compared at a fixed price, if they stand on the left."""

    def __call__(self, arguments: Sequence[Any], _result: Any) -> int:
        left, right = arguments
        if isinstance(left, Quantity | Semver | Url | Ip | Cidr | NamedFormat):
            return 1
        return per_character(min(size_of_content(left), size_of_content(right)))

    def at_most(self, arguments: Sequence[Shape], _result: Shape) -> int:
        return max(per_character(min(argument.length for argument in arguments)), 1)


class OfAllInside:
    def __call__(self, arguments: Sequence[Any], _result: Any) -> int:
        return price_of_all_inside(arguments[0])

    def at_most(self, arguments: Sequence[Shape], _result: Shape) -> int:
        return arguments[0].volume


class OfValidating:
    def __call__(self, arguments: Sequence[Any], _result: Any) -> int:
        named, text = arguments
        return of_pattern(size_of(text), named.pattern_length) if isinstance(named, NamedFormat) else 1

    def at_most(self, arguments: Sequence[Shape], _result: Shape) -> int:
        longest = max(named.pattern_length for named in NAMED_FORMATS.values())
        return of_pattern(max(arguments[1].length, 1), longest)


@dataclass(frozen=True, slots=True)
class OfFlattening:
    """A negative depth is an error, but one that had a negative price once."""

    may_be_negative: bool

    def __call__(self, arguments: Sequence[Any], _result: Any) -> int:
        levels = self._levels(arguments)
        if levels < 0 and not self.may_be_negative:
            levels = 1
        return size_of(arguments[0]) * levels + 1 + NEW_LIST

    def _levels(self, arguments: Sequence[Any]) -> int:
        if len(arguments) == 1:
            return 1
        depth = arguments[1]
        if type(depth) is not int:
            raise Breakdown("internal error: the depth of flattening is no integer")
        return depth

    def at_most(self, arguments: Sequence[Shape], _result: Shape) -> int:
        return arguments[0].length + 1 + NEW_LIST if len(arguments) == 1 else ENDLESS_SIZE


@dataclass(frozen=True, slots=True)
class OfComparingItems:
    """Each item with each. Kubernetes' evaluation breaks down over anything but a list, even over errors."""

    position: int

    def __call__(self, arguments: Sequence[Any], _result: Any) -> int:
        items = arguments[self.position]
        if not isinstance(items, list):
            raise Breakdown("internal error: what shall be compared is no list")
        is_text = bool(items) and isinstance(items[0], str | bytes)
        return int(len(items) ** 2 * (2.0 + PER_CHARACTER if is_text else 2.0)) + 1 + NEW_LIST

    def at_most(self, arguments: Sequence[Shape], _result: Shape) -> int:
        pairs = min(arguments[self.position].length ** 2, ENDLESS_SIZE)
        return int(pairs * (2.0 + PER_CHARACTER)) + 1 + NEW_LIST
