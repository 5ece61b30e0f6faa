"""Lists, of which cel-go has several kinds that an expression can tell apart."""

from typing import Any, Final

from gpusharing.cel.errors import BudgetError

LONGEST: Final = 1_000_000
"""Items. The sum of two lists costs next to nothing in Kubernetes, where it is no copy."""


class AttributeList(list[Any]):
    """An attribute of a device."""

    __slots__ = ()


class JoinedList(list[Any]):
    """A sum of lists: unlike other lists it does not hide that two of its items cannot be compared."""

    __slots__ = ()


class GrowingList(list[Any]):
    """What a variable of `cel.bind` holds that begins as an empty list: it grows by whatever is added to it."""

    __slots__ = ()


def fetched(value: Any) -> Any:
    """To Kubernetes a device's list is another one each time that an expression reads it."""
    return AttributeList(value) if type(value) is AttributeList else value


def added(left: list[Any], right: list[Any]) -> list[Any]:
    if type(left) is GrowingList:
        check_length(len(left) + len(right))
        left.extend(right)
        return left
    if not left:
        return right
    if not right:
        return left
    check_length(len(left) + len(right))
    joined = JoinedList(left)
    joined.extend(right)
    return joined


def check_length(length: int) -> None:
    if length > LONGEST:
        raise BudgetError(f"a list of {length} items: more than {LONGEST} are not supported")


def accumulator(initial: Any) -> Any:
    """The value of a bound variable, when it is first looked at."""
    return GrowingList() if isinstance(initial, list) and not initial else initial


def settled(result: Any) -> Any:
    """A growing list grows no more once it leaves the expression that bound it."""
    return list(result) if type(result) is GrowingList else result
