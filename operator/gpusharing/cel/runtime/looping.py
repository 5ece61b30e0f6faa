"""What macros loop over."""

from collections.abc import Iterable, Iterator
from typing import Any

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime import maps
from gpusharing.cel.runtime.lists import GrowingList


def items(value: Any) -> Iterable[Any]:
    """For one variable. A list that grows meanwhile is taken as it is now."""
    if isinstance(value, list):
        return list(value) if type(value) is GrowingList else value
    if isinstance(value, dict):
        return maps.keys(value)
    raise _not_iterable(value)


def pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    """For two variables. A list that grows meanwhile is never finished."""
    if isinstance(value, list):
        return enumerate(value)
    if isinstance(value, dict):
        return maps.items(value)
    raise _not_iterable(value)


def _not_iterable(value: Any) -> EvaluationError:
    return EvaluationError(f"got '{type(value).__name__}', expected iterable type")
