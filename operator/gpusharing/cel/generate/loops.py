"""Macros. What they expand to in cel-go has always the same few shapes, each of which is a loop of its own here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, cast

from gpusharing.cel.cost.meter import MOST_WORK
from gpusharing.cel.cost.prices import COST_LIMIT, NEW_LIST
from gpusharing.cel.cost.runtime import price_of
from gpusharing.cel.declarations.types import BOOL, DYN, INT, map_of
from gpusharing.cel.generate.code import (
    NOT_CONSTANT,
    Code,
    is_list,
    is_map,
    items_of,
    list_type,
    may_be_list,
    values_of,
)
from gpusharing.cel.generate.nodes import nodes_of
from gpusharing.cel.generate.source import MESSAGE, Lines
from gpusharing.cel.runtime import faults, lists, looping, maps
from gpusharing.cel.runtime.lazy import Lazy
from gpusharing.cel.tree import ADD, CONDITIONAL, Call, Comprehension, MakeList, Node

if TYPE_CHECKING:
    from gpusharing.cel.generate.generator import Generator

_VARIABLE: Final = 1
_CALL: Final = 1
# What Kubernetes charges for the macros' own variable and calls.
_CONDITION: Final = {"all": _VARIABLE + _CALL, "exists": _VARIABLE + 2 * _CALL}
_COUNTED: Final = _VARIABLE + _CALL
_COMPARED: Final = _VARIABLE + _CALL
_RESULT: Final = _VARIABLE

_EAGER_OPTIONALS: Final = 37
"""The first minor version of Kubernetes in which an optional value that has a value always gives it."""


def comprehension(g: Generator, node: Comprehension) -> Code:
    match node.macro:
        case "bind" | "opt_map" | "opt_flat_map":
            return _bind(g, node)
        case "all" | "exists":
            return _quantifier(g, node)
        case "exists_one":
            return _exists_one(g, node)
        case "map" | "filter" | "transform_list":
            return _list(g, node)
        case _:
            return _map(g, node)


# --- The loop itself --------------------------------------------------------------------------------------------------


@contextmanager
def _loop(g: Generator, node: Comprehension) -> Iterator[None]:
    """What is written inside is one turn."""
    subject = g.value(node.range)
    outer = g.scope
    variables, header = _header(g, node, subject)
    with g.nested(variables) as lines:
        yield
    if g.is_metered:
        limits = f"m.cost > {g.refer(COST_LIMIT)} or m.work > {g.refer(MOST_WORK)}"
        lines.items[:0] = [lines.work(), (f"if {limits}:", Lines("m.check()"))]
    g.scope = outer
    lines.fails |= subject.fails or not (is_list(subject.type) or is_map(subject.type))
    lines.breaks |= subject.breaks
    g.source.block(header, lines)


def _header(g: Generator, node: Comprehension, subject: Code) -> tuple[dict[str, Code], str]:
    first = g.source.temporary()
    if not node.second_variable:
        variables = {node.variable: Code(first, items_of(subject.type))}
        return variables, f"for {first} in {g.refer(looping.items)}({subject.text}):"
    second = g.source.temporary()
    key = INT if is_list(subject.type) else items_of(subject.type) if is_map(subject.type) else DYN
    variables = {node.variable: Code(first, key), node.second_variable: Code(second, values_of(subject.type))}
    return variables, f"for {first}, {second} in {g.refer(looping.pairs)}({subject.text}):"


def _arguments(node: Node) -> tuple[Node, ...]:
    return cast("Call", node).arguments


# --- Macros that give a bool ------------------------------------------------------------------------------------------


def _quantifier(g: Generator, node: Comprehension) -> Code:
    """The first turn that decides ends the loop; errors count only if there is none."""
    is_all = node.macro == "all"
    result, error = g.source.temporary(), g.source.temporary()
    is_decided = f"not {result}" if is_all else result
    with g.source.detached() as loop, _loop(g, node):
        g.charge(_CONDITION[node.macro])
        if g.is_metered:
            # Kubernetes notices only here, in the next turn, and charges for it.
            g.source.block(f"if {is_decided}:", Lines("break"))
        g.charge(_VARIABLE)
        with g.catching() as lines:
            code = g.truth(g.value(_arguments(node.step)[1]))
            g.line(f"{result} = {code.text}", code)
        if lines.fails:
            g.handle(lines, f"{error} = {MESSAGE}; continue")
        else:
            g.source.attach(lines)
        if not g.is_metered:
            g.source.block(f"if {is_decided}:", Lines("break"))
    g.source.line(f"{result} = {is_all}")
    if lines.fails:
        g.source.line(f"{error} = None")
    g.source.attach(loop)
    g.charge(_RESULT)
    if lines.fails:
        _raise_if_failed(g, error, f"not ({is_decided})")
    return Code(result, BOOL)


def _raise_if_failed(g: Generator, error: str, undecided: str | None = None) -> None:
    condition = f"{error} is not None" + (f" and {undecided}" if undecided else "")
    g.source.block(f"if {condition}:", Lines(f"{g.refer(faults.fail)}({error})", fails=True))


def _exists_one(g: Generator, node: Comprehension) -> Code:
    count = g.source.temporary()
    g.source.line(f"{count} = 0")

    def turn(_error: str) -> None:
        condition = g.truth(g.value(_arguments(node.step)[0]))
        with g.source.detached() as lines:
            g.charge(_COUNTED)
            g.source.line(f"{count} += 1")
        lines.fails, lines.breaks = condition.fails, condition.breaks
        g.source.block(f"if {condition.text}:", lines)

    _collect(g, node, turn, _COMPARED)
    return Code(f"({count} == 1)", BOOL)


# --- Macros that give a list or a map ---------------------------------------------------------------------------------


def _list(g: Generator, node: Comprehension) -> Code:
    result = g.source.temporary()
    g.source.line(f"{result} = []")
    kinds: list[Code] = []

    def add(step: Call) -> None:
        (item,) = cast("MakeList", step.arguments[1]).elements
        g.charge(_VARIABLE + cast("int", price_of(ADD, g.overloads[step.id], g.minor)))
        with g.source.detached() as lines:
            code = g.value(item)
        if not code.is_constant:
            g.charge(NEW_LIST)
        g.source.attach(lines)
        g.line(f"{result}.append({code.text})", code)
        kinds.append(code)

    _collect(g, node, lambda _error: _filtered(g, node.step, add), _RESULT)
    return Code(result, list_type(kinds[0].type))


def _map(g: Generator, node: Comprehension) -> Code:
    result = g.source.temporary()
    g.source.line(f"{result} = {{}}")
    has_keys = node.macro == "transform_map"

    def insert(step: Call, error: str) -> None:
        g.charge(_VARIABLE)
        with g.source.detached() as lines:
            g.charge(_CALL)
            values = g.in_order(step.arguments[1:])
            function = maps.insert if has_keys else maps.insert_all
            text = f"{g.refer(function)}({result}, {', '.join(code.text for code in values)})"
            g.line(text, *values, Code(text, fails=True, breaks=True))
        if has_keys and g.is_metered:
            # After an error Kubernetes does not look at keys and values any more.
            g.source.block(f"if {error} is None:", lines)
        else:
            g.source.attach(lines)

    _collect(g, node, lambda error: _filtered(g, node.step, lambda step: insert(step, error)), _RESULT)
    return Code(result, map_of(DYN, DYN))


def _filtered(g: Generator, step: Node, accumulate: Callable[[Call], None]) -> None:
    """`condition ? accumulator + [item] : accumulator`, or without the condition."""
    step = cast("Call", step)
    if step.function != CONDITIONAL:
        accumulate(step)
        return
    condition = g.truth(g.value(step.arguments[0]))
    with g.source.detached() as lines:
        accumulate(cast("Call", step.arguments[1]))
    lines.fails |= condition.fails
    lines.breaks |= condition.breaks
    g.source.block(f"if {condition.text}:", lines)


def _collect(g: Generator, node: Comprehension, turn: Callable[[str], None], cost_of_result: int) -> None:
    """The loop of a macro that fails if one of its turns does: after all turns, as in Kubernetes, where that shows."""
    error = g.source.temporary()
    with g.source.detached() as loop, _loop(g, node):
        with g.catching() as lines:
            turn(error)
        is_patient = lines.fails and (g.is_metered or lines.breaks)
        if is_patient:
            g.handle(lines, f"{error} = {MESSAGE}")
        else:
            g.source.attach(lines)
    if is_patient:
        g.source.line(f"{error} = None")
    g.source.attach(loop)
    g.charge(cost_of_result)
    if is_patient:
        _raise_if_failed(g, error)


# --- Variables --------------------------------------------------------------------------------------------------------


def _bind(g: Generator, node: Comprehension) -> Code:
    with g.source.detached() as lines, g.own_definitions() as definitions:
        initial = g.value(node.initial)
        grows = may_be_list(initial.type) and initial.type.name != "attribute" and _adds(node.result)
        if grows:
            initial = initial._replace(text=f"{g.refer(lists.accumulator)}({initial.text})")
    outer = g.scope
    g.scope = {**outer, node.accumulator: _variable(g, node, definitions, lines, initial)}
    result = g.value(node.result)
    g.scope = outer
    text = f"{g.refer(lists.settled)}({result.text})" if grows else result.text
    # Not a constant to Kubernetes, whatever it is.
    return result._replace(text=text, constant=NOT_CONSTANT)


def _variable(g: Generator, node: Comprehension, definitions: Lines, lines: Lines, initial: Code) -> Code:
    never_fails = not lines.fails and not initial.fails
    # The macro has just asked whether there is a value.
    never_fails |= node.macro != "bind" and g.minor >= _EAGER_OPTIONALS
    name = g.source.temporary()
    if never_fails and (not g.is_metered or not lines):
        g.adopt(definitions)
        g.source.attach(lines)
        g.line(f"{name} = {initial.text}", initial)
        return Code(name, initial.type)
    with g.source.detached() as body:
        g.source.attach(lines)
        g.line(f"return {initial.text}", initial)
    # They see its variables.
    body.items[:0] = definitions.items
    g.source.line(f"{name} = {g.refer(Lazy)}({g.define(body)})")
    return Code(f"{name}.get()", initial.type, True, lines.breaks or initial.breaks)


def _adds(node: Node) -> bool:
    """Whether there is a `+` that might add to a list."""
    return any(isinstance(part, Call) and part.function == ADD for part in nodes_of(node))
