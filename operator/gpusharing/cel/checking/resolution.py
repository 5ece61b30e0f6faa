"""Which of a function's overloads fit the types that it is given, and what that makes of the result."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from gpusharing.cel.checking.assignment import Bindings, is_unknown, same
from gpusharing.cel.declarations import declarations
from gpusharing.cel.declarations.overloads import Overload
from gpusharing.cel.declarations.types import DYN, Type

_REMEMBERED: Final = 512
_LARGEST_REMEMBERED: Final = 20
_UNSPECIFIC: Final = frozenset({"dyn", "any"})
_FITTING_OTHERS: Final = frozenset({"dyn", "any", "!error!", "null_type", "wrapper"})


class Resolution(NamedTuple):
    overloads: tuple[str, ...]
    """By cel-go's ids."""
    result: Type


def resolve(
    function: str, minor: int, given: tuple[Type, ...], bindings: Bindings, *, is_member: bool
) -> Resolution | None:
    """None if there is no such overload. What the call says about types to be found is kept in the bindings."""
    if not any(each.is_open or each.size > _LARGEST_REMEMBERED for each in given):
        known = _resolved(function, minor, given, is_member)
        if known is None or not known.result.is_open:
            return known
    return _resolve(_overloads(function, minor, is_member), given, bindings)


@lru_cache(_REMEMBERED)
def _resolved(function: str, minor: int, given: tuple[Type, ...], is_member: bool) -> Resolution | None:
    """Of types that are all known. Such calls say nothing about others, and are the same again and again."""
    return _resolve(_overloads(function, minor, is_member), given, Bindings())


def _overloads(function: str, minor: int, is_member: bool) -> Sequence[Overload]:
    declared = declarations(minor).functions[function]
    return declared.members if is_member else declared.globals


def _resolve(overloads: Sequence[Overload], given: tuple[Type, ...], bindings: Bindings) -> Resolution | None:
    fitting = []
    result: Type | None = None
    for overload in overloads:
        type_ = _result(overload, given, bindings)
        if type_ is None:
            continue
        fitting.append(overload.id)
        if result is None:
            result = type_
        elif result.name not in _UNSPECIFIC and not same(type_, result):
            result = DYN
    return None if result is None else Resolution(tuple(fitting), result)


def _result(overload: Overload, given: Sequence[Type], bindings: Bindings) -> Type | None:
    """None if the overload takes something else."""
    wanted: Sequence[Type] = overload.parameters
    if len(wanted) != len(given) or any(map(_never_fits, given, wanted)):
        return None
    if not overload.is_open:
        return overload.result if bindings.fit(given, wanted) else None
    result, *wanted = bindings.renamed((overload.result, *wanted))
    if not bindings.fit(given, wanted):
        return None
    return bindings.resolved(result) if result.is_open else result


def _never_fits(given: Type, wanted: Type) -> bool:
    """That can be told at a glance."""
    return (
        given.name != wanted.name
        and given.name not in _FITTING_OTHERS
        and wanted.name not in _FITTING_OTHERS
        and not is_unknown(given)
        and not is_unknown(wanted)
    )
