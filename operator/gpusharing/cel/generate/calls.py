"""Functions and operators that evaluate all their arguments."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gpusharing.cel.cost.charging import Price
from gpusharing.cel.cost.meter import Meter
from gpusharing.cel.cost.runtime import price_of, stops_at_error
from gpusharing.cel.cost.work import SEARCHING
from gpusharing.cel.declarations.types import BOOL, DYN, Type
from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.generate import functions, inline, logic
from gpusharing.cel.generate.code import Code
from gpusharing.cel.generate.nodes import operands
from gpusharing.cel.generate.source import MESSAGE, Lines
from gpusharing.cel.runtime import faults, membership
from gpusharing.cel.tree import (
    AND,
    CONVERSIONS,
    EQUALS,
    GREATER,
    GREATER_EQUALS,
    IN,
    LESS,
    LESS_EQUALS,
    NOT,
    NOT_EQUALS,
    OR,
    Call,
    Constantly,
    Node,
)
from gpusharing.cel.values.regex import Regex

if TYPE_CHECKING:
    from gpusharing.cel.generate.generator import Generator

_ALWAYS_BOOL: Final = frozenset((
    AND, OR, NOT, EQUALS, NOT_EQUALS, IN, LESS, LESS_EQUALS, GREATER, GREATER_EQUALS,
))  # fmt: skip


_NOTHING: Final = Lines()


class _Operand(NamedTuple):
    lines: Lines
    code: Code

    @property
    def fails(self) -> bool:
        return self.lines.fails or self.code.fails

    @property
    def breaks(self) -> bool:
        return self.lines.breaks or self.code.breaks


def certain_type(node: Node) -> Type:
    """What can be said without a look at the arguments."""
    return BOOL if isinstance(node, Call) and node.function in _ALWAYS_BOOL else DYN


def call(g: Generator, node: Call) -> Code:
    overloads = g.overloads[node.id]
    if node.function in (AND, OR):
        return logic.logical(g, node)
    if overloads in (("optional_or_optional",), ("optional_orValue_value",)):
        return logic.optional_or(g, node)
    parts = [_operand(g, argument) for argument in operands(node)]
    codes = [part.code for part in parts]
    if node.function in CONVERSIONS and len(codes) == 1 and codes[0].is_constant:
        return g.constant(converted(g, node, codes[0].constant))
    if node.function == IN and overloads == ("in_list",) and codes[1].is_constant:
        code = _membership(g, parts[0], codes[1].constant)
        if code is not None:
            return code
    regex = _constant_pattern(g, node, codes)
    has_constant_pattern = node.function in SEARCHING and type(codes[1].constant) is str
    stops = stops_at_error(node.function, overloads, len(parts), has_constant_pattern=has_constant_pattern)
    function = functions.resolve(g, node)
    if regex is not None:
        function = functions.Pattern(node.function, regex, function)
    price = _price(g, node, codes) if g.is_metered or function.breaks_unpaid else 0
    if not isinstance(price, int):
        return _paid_call(g, node, price, function, parts, stops=stops)
    codes = _attached_in_order(g, parts, price) if stops else _attached(g, parts, price)
    return function.measured(g, codes) if g.is_metered else function.code(g, codes)


def _price(g: Generator, node: Call, codes: list[Code]) -> int | Price:
    price = price_of(node.function, g.overloads[node.id], g.minor)
    if not isinstance(price, int) and inline.has_fixed_price(node.function, codes, g.minor):
        # Whatever does not matter to the price need not be there.
        return price([code.constant for code in codes], None)
    return price


def _operand(g: Generator, node: Node) -> _Operand:
    if isinstance(node, Constantly):
        return _Operand(_NOTHING, g.constant(node.value))
    with g.catching() as lines:
        code = g.value(node)
    return _Operand(lines, code)


# --- What Kubernetes does when it compiles ----------------------------------------------------------------------------


def converted(g: Generator, node: Call, argument: Any) -> Any:
    try:
        return functions.resolve(g, node).function(argument)
    except EvaluationError as error:
        raise g.fail(node, error.message) from None


def _membership(g: Generator, subject: _Operand, constants: list[Any]) -> Code | None:
    """In a list of simple constants, as a set. In an empty list there is nothing, and nobody looks for it."""
    if not constants:
        return g.constant(False)
    members = membership.members(constants)
    if members is None:
        return None
    g.source.attach(subject.lines)
    return inline.is_member(g, subject.code, members)


def _constant_pattern(g: Generator, node: Call, codes: list[Code]) -> Regex | None:
    if node.function not in SEARCHING or not codes[1].is_constant or type(codes[1].constant) is not str:
        return None
    try:
        return g.patterns.regex(codes[1].constant)
    except EvaluationError as error:
        raise g.fail(node, error.message) from None


# --- Evaluation of arguments ------------------------------------------------------------------------------------------


def _attached_in_order(g: Generator, operands: list[_Operand], price: int) -> list[Code]:
    """None is evaluated after one that failed, and the call is paid for when only the last is left."""
    codes: list[Code] = []
    for number, operand in enumerate(operands, 1):
        if operand.lines.breaks:
            codes = [g.settled(code) for code in codes]
        if number == len(operands):
            g.charge(price)
        g.source.attach(operand.lines)
        codes.append(operand.code)
    if not operands:
        g.charge(price)
    return codes


def _attached(g: Generator, operands: list[_Operand], price: int) -> list[Code]:
    """All are evaluated whatever happens, and the call is paid for in any case."""
    g.charge(price)
    if len(operands) != 2:
        for operand in operands:
            g.source.attach(operand.lines)
        return [operand.code for operand in operands]
    left, right = operands
    if left.fails and (right.breaks or (g.is_metered and right.lines.fails)):
        caught = _caught(g, left)
        g.source.attach(right.lines)
        code = g.settled(right.code)
        g.source.line(f"{g.refer(faults.raise_error)}({caught.text})", fails=True, breaks=left.breaks)
        return [caught, code]
    # What cannot fail comes first, so that it is paid for if the other does.
    for operand in (right, left) if left.fails else (left, right):
        g.source.attach(operand.lines)
    return [left.code, right.code]


def _caught(g: Generator, operand: _Operand) -> Code:
    """The value, or the error as if it were one."""
    if not operand.fails:
        g.source.attach(operand.lines)
        return operand.code
    name = g.source.temporary()
    with g.source.detached() as lines:
        g.source.attach(operand.lines)
        g.line(f"{name} = {operand.code.text}", operand.code)
    g.handle(lines, f"{name} = {g.refer(EvaluationError)}({MESSAGE})")
    return Code(name, operand.code.type)


def _paid_call(
    g: Generator, node: Call, price: Price, function: functions.Function, parts: list[_Operand], *, stops: bool
) -> Code:
    """The price depends on the values, and on which of them failed."""
    payable = parts[-1:] if stops else parts
    failing = [part for part in payable if part.fails]
    kinds = [part.code for part in parts]
    python_function = function.counted(g, kinds)
    meter = "m" if g.is_metered else f"{g.refer(Meter)}()"
    if len(failing) > 1:
        codes = [_caught(g, part) for part in parts]
        arguments = ", ".join(code.text for code in codes)
        g.source.line(f"{meter}.refuse_errors({g.refer(price)}, {arguments})", fails=True)
    else:
        codes = _attached_paying(g, meter, price, parts, failing)
        arguments = ", ".join(code.text for code in codes)
    text = f"{meter}.{_COMMON.get(node.function, 'call')}({g.refer(price)}, {python_function}, {arguments})"
    return Code(text, function.type_for(kinds), fails=True, breaks=True)


_COMMON: Final = {
    EQUALS: "equal",
    NOT_EQUALS: "unequal",
    "format": "format",
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), "call_for_all_inside"),
    "distinct": "call_if_affordable",
    "sort": "call_if_affordable",
    "@sortByAssociatedKeys": "call_if_affordable",
    "sets.contains": "call_if_affordable",
    "sets.equivalent": "call_if_affordable",
    "sets.intersects": "call_if_affordable",
}


def _attached_paying(
    g: Generator, meter: str, price: Price, parts: list[_Operand], failing: list[_Operand]
) -> list[Code]:
    """At most one can fail while all others are there: then the call is paid for at once, and does not take place."""
    codes = [part.code for part in parts]
    for number, part in enumerate(parts):
        if part not in failing:
            g.source.attach(part.lines)
            codes[number] = g.settled(part.code)
    for number, part in enumerate(parts):
        if part in failing:
            name = g.source.temporary()
            with g.source.detached() as lines:
                g.source.attach(part.lines)
                g.line(f"{name} = {part.code.text}", part.code)
            codes[number] = Code(f"{g.refer(sys.exception)}()")
            arguments = ", ".join(code.text for code in codes)
            g.handle(lines, f"{meter}.refuse({g.refer(price)}, {MESSAGE}, {arguments})", fails=True)
            codes[number] = Code(name, part.code.type)
    return codes
