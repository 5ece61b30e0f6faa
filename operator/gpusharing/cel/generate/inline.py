"""Operators, and the common functions, as expressions of Python where types allow it.

Python's own operators are right for two strings or two integers. Where a type is not sure, a test of it decides at run
time between such an expression and the general function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from gpusharing.cel.declarations.types import (
    BOOL,
    BYTES,
    CIDR,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    IP,
    QUANTITY,
    SEMVER,
    STRING,
    TIMESTAMP,
    UINT,
    URL,
    Type,
)
from gpusharing.cel.generate.code import ATTRIBUTE, Code, is_list, is_map, is_simple, joined, list_type
from gpusharing.cel.runtime import arithmetic, equality, faults, membership, sizes
from gpusharing.cel.runtime.overloads import BY_FUNCTION
from gpusharing.cel.tree import (
    ADD,
    DIVIDE,
    EQUALS,
    GREATER,
    GREATER_EQUALS,
    IN,
    LESS,
    LESS_EQUALS,
    MODULO,
    MULTIPLY,
    NEGATE,
    NOT,
    NOT_EQUALS,
    SUBTRACT,
)
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.network import Cidr, Ip
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.quantity import Quantity
from gpusharing.cel.values.semver import Semver
from gpusharing.cel.values.timestamps import Timestamp
from gpusharing.cel.values.urls import Url

if TYPE_CHECKING:
    from gpusharing.cel.generate.generator import Generator

CLASSES: Final = MappingProxyType({
    BOOL: bool, INT: int, UINT: Uint, DOUBLE: float, STRING: str, BYTES: bytes, DURATION: Duration,
    TIMESTAMP: Timestamp, QUANTITY: Quantity, SEMVER: Semver, URL: Url, IP: Ip, CIDR: Cidr,
})  # fmt: skip
"""Types whose values are of exactly one class."""

_SAME_IN_PYTHON: Final = frozenset((BOOL, INT, UINT, STRING, BYTES))
_TESTED: Final = frozenset((BOOL, INT, STRING))
_WITHOUT_SIZE: Final = frozenset((BOOL, INT, UINT, DOUBLE, DURATION, TIMESTAMP))
_CONSTRUCTORS: Final = frozenset(("quantity", "semver", "cidr"))
_FIRST_WITH_CHEAP_ENDS: Final = 37
_INTEGERS: Final = frozenset((INT, UINT))
_SYMBOLS: Final = {LESS: "<", LESS_EQUALS: "<=", GREATER: ">", GREATER_EQUALS: ">="}


def test(g: Generator, code: Code, kind: Type) -> tuple[str, str]:
    """A test whether the value has this type, and the value for those who come after the test."""
    name = code.text
    if not code.is_name:
        name = g.source.temporary()
        return f"{g.refer(type)}({name} := {code.text}) is {g.refer(CLASSES[kind])}", name
    return f"{g.refer(type)}({name}) is {g.refer(CLASSES[kind])}", name


def _called(
    g: Generator, function: Callable[..., Any], codes: Sequence[Code], kind: Type, *, fails: bool = True
) -> Code:
    text = f"{g.refer(function)}({', '.join(code.text for code in codes)})"
    return Code(text, kind, fails or any(code.fails for code in codes), any(code.breaks for code in codes))


def _written(text: str, kind: Type, codes: Sequence[Code]) -> Code:
    return Code(text, kind, any(code.fails for code in codes), any(code.breaks for code in codes))


def has_fixed_price(function: str, codes: Sequence[Code], minor: int) -> bool:
    """Values without size are compared for one unit, and of a beginning or end only its own length matters."""
    if function in ("startsWith", "endsWith"):
        return minor >= _FIRST_WITH_CHEAP_ENDS and codes[1].is_constant
    if function in (EQUALS, NOT_EQUALS):
        return all(code.type in _WITHOUT_SIZE for code in codes)
    return function in _CONSTRUCTORS and codes[0].is_constant


# --- == and != --------------------------------------------------------------------------------------------------------


def equals(g: Generator, codes: Sequence[Code]) -> Code:
    left, right = codes
    for code, other in ((left, right), (right, left)):
        if code.is_constant and code.constant is None:
            return _written(f"({other.text} is None)", BOOL, [other])
    if left.type == STRING or (left.type == right.type and left.type in _SAME_IN_PYTHON):
        return _written(f"({left.text} == {right.text})", BOOL, codes)
    if left.type is ATTRIBUTE and right.type in _TESTED:
        return _tested(g, "==", equality.equal, left, g.named(right), fails=True)
    if right.type is ATTRIBUTE and left.type in _TESTED:
        return _tested(g, "==", equality.equal, right, g.named(left), fails=False, is_swapped=True)
    return _called(g, equality.equal, codes, BOOL, fails=not is_simple(left.type))


def not_equals(g: Generator, codes: Sequence[Code]) -> Code:
    left, right = codes
    for code, other in ((left, right), (right, left)):
        if code.is_constant and code.constant is None:
            return _written(f"({other.text} is not None)", BOOL, [other])
    is_native = left.type == right.type and left.type in _SAME_IN_PYTHON
    if is_native or STRING in (left.type, right.type):
        return _written(f"({left.text} != {right.text})", BOOL, codes)
    if left.type is ATTRIBUTE and right.type in _TESTED:
        return _tested(g, "!=", equality.unequal, left, g.named(right), fails=False)
    return _called(g, equality.unequal, codes, BOOL, fails=False)


def _tested(
    g: Generator,
    symbol: str,
    function: Callable[..., Any],
    unsure: Code,
    sure: Code,
    *,
    fails: bool,
    is_swapped: bool = False,
) -> Code:
    """Of an operator that is Python's if one side has the other's type."""
    test_text, name = test(g, unsure, sure.type)
    left, right = (sure.text, name) if is_swapped else (name, sure.text)
    text = f"({left} {symbol} {right} if {test_text} else {g.refer(function)}({left}, {right}))"
    return Code(text, BOOL, fails or unsure.fails, unsure.breaks)


# --- Order, arithmetic, membership ------------------------------------------------------------------------------------


def _compared(function: str) -> Callable[[Generator, Sequence[Code]], Code]:
    symbol, general = _SYMBOLS[function], BY_FUNCTION[function]

    def compared(g: Generator, codes: Sequence[Code]) -> Code:
        left, right = codes
        kinds = {left.type, right.type}
        if kinds <= _INTEGERS or (len(kinds) == 1 and left.type in _SAME_IN_PYTHON):
            return _written(f"({left.text} {symbol} {right.text})", BOOL, codes)
        if left.type not in CLASSES and right.type in _TESTED:
            return _tested(g, symbol, general, left, g.named(right), fails=True)
        if right.type not in CLASSES and left.type in _TESTED:
            return _tested(g, symbol, general, right, g.named(left), fails=True, is_swapped=True)
        return _called(g, general, codes, BOOL)

    return compared


def _calculated(function: str) -> Callable[[Generator, Sequence[Code]], Code]:
    def calculated(g: Generator, codes: Sequence[Code]) -> Code:
        return _called(g, BY_FUNCTION[function], codes, type_of_result(codes))

    return calculated


def type_of_result(codes: Sequence[Code]) -> Type:
    """Numbers, strings and bytes stay among themselves, or it is an error."""
    kinds = [code.type for code in codes]
    for kind in (INT, UINT, DOUBLE, STRING, BYTES):
        if kind in kinds:
            return kind
    if all(map(is_list, kinds)):
        return list_type(joined([kind.parameters[0] for kind in kinds]))
    return DYN


def _added(g: Generator, codes: Sequence[Code]) -> Code:
    return _called(g, arithmetic.add, codes, type_of_result(codes))


def _is_in(g: Generator, codes: Sequence[Code]) -> Code:
    value, container = codes
    if value.type == STRING and (is_list(container.type) or (is_map(container.type) and container.type.name != "map")):
        return _written(f"({value.text} in {container.text})", BOOL, codes)
    return _called(g, membership.is_in, codes, BOOL)


def is_member(g: Generator, value: Code, members: frozenset[Any]) -> Code:
    """Of a set of constants."""
    if value.type == STRING:
        return _written(f"({value.text} in {g.refer(members)})", BOOL, [value])
    may_break = not is_simple(value.type) or value.type == BYTES
    if is_simple(value.type) or not all(type(member) is str for member in members):
        text = f"{g.refer(membership.is_member)}({value.text}, {g.refer(members)})"
        return Code(text, BOOL, value.fails or may_break, value.breaks or may_break)
    test_text, name = test(g, value, STRING)
    general = f"{g.refer(membership.is_member)}({name}, {g.refer(members)})"
    text = f"({name} in {g.refer(members)} if {test_text} else {general})"
    return Code(text, BOOL, fails=True, breaks=True)


# --- One argument -----------------------------------------------------------------------------------------------------


def _negated(g: Generator, codes: Sequence[Code]) -> Code:
    (value,) = codes
    if value.type == BOOL:
        return _written(f"(not {value.text})", BOOL, codes)
    return _called(g, BY_FUNCTION[NOT], codes, BOOL)


def _sized(g: Generator, codes: Sequence[Code]) -> Code:
    (value,) = codes
    if value.type in (STRING, BYTES) or is_list(value.type) or is_map(value.type):
        return _called(g, len, codes, INT, fails=False)
    return _called(g, sizes.size, codes, INT)


def _typed(g: Generator, codes: Sequence[Code]) -> Code:
    return _called(g, BY_FUNCTION["type"], codes, DYN, fails=False)


def _itself(_g: Generator, codes: Sequence[Code]) -> Code:
    return codes[0]


OPERATORS: Final[MappingProxyType[str, Callable[[Generator, Sequence[Code]], Code]]] = MappingProxyType(
    {
        EQUALS: equals,
        NOT_EQUALS: not_equals,
        **{function: _compared(function) for function in _SYMBOLS},
        **{function: _calculated(function) for function in (SUBTRACT, MULTIPLY, DIVIDE, MODULO, NEGATE)},
        ADD: _added,
        IN: _is_in,
        NOT: _negated,
        "size": _sized,
        "type": _typed,
        "dyn": _itself,
    }
)


# --- Strings ----------------------------------------------------------------------------------------------------------


def of_texts(g: Generator, template: str, codes: Sequence[Code]) -> Code:
    """An expression about two strings, which stand for `{0}` and `{1}` in the template."""
    tests, names = [], []
    for code in codes:
        name = code.text
        if code.type != STRING:
            test_text, name = test(g, code, STRING)
            tests.append(test_text)
        names.append(name)
    text = template.format(*names)
    if not tests:
        return _written(f"({text})", BOOL, codes)
    text = f"({text} if {' and '.join(tests)} else {g.refer(faults.no_such_overload)}())"
    return Code(text, BOOL, fails=True, breaks=any(code.breaks for code in codes))
