"""`&&`, `||`, `?:` and optional values' `or` and `orValue`: what is evaluated only if need be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gpusharing.cel.declarations.types import BOOL
from gpusharing.cel.generate import paths
from gpusharing.cel.generate.code import Code, joined
from gpusharing.cel.generate.nodes import operands
from gpusharing.cel.generate.source import MESSAGE, Lines
from gpusharing.cel.runtime import faults, optionals
from gpusharing.cel.tree import AND, Call, Node
from gpusharing.cel.values.optional import NONE

if TYPE_CHECKING:
    from gpusharing.cel.generate.generator import Generator

_STRICT_OPTIONALS = 37
"""The first minor version of Kubernetes in which `or` and `orValue` insist on an optional value."""


def boolean(value: Any) -> bool:
    return value if type(value) is bool else faults.no_such_overload()


class _Term(NamedTuple):
    lines: Lines
    code: Code

    @property
    def fails(self) -> bool:
        return self.lines.fails or self.code.fails


def logical(g: Generator, node: Call) -> Code:
    """An error counts only if no other term decides the matter."""
    terms = [_term(g, term) for term in _flattened(node)]
    operator = "and" if node.function == AND else "or"
    if all(not term.lines for term in terms) and not any(term.fails for term in terms[:-1]):
        text = f" {operator} ".join(f"({term.code.text})" for term in terms)
        return Code(f"({text})", BOOL, terms[-1].code.fails, terms[-1].code.breaks)
    return _step_by_step(g, operator, terms)


def _flattened(node: Call) -> list[Node]:
    """`a && (b && c)` is `a && b && c`, errors included."""
    terms: list[Node] = []
    pending: list[Node] = [node]
    while pending:
        term = pending.pop()
        if isinstance(term, Call) and term.function == node.function:
            pending += reversed(term.arguments)
        else:
            terms.append(term)
    return terms


def _term(g: Generator, node: Node) -> _Term:
    with g.catching() as lines:
        code = g.truth(g.value(node))
    return _Term(lines, code)


def _step_by_step(g: Generator, operator: str, terms: list[_Term]) -> Code:
    result, error = g.source.temporary(), g.source.temporary()
    undecided = result if operator == "and" else f"not {result}"
    may_fail = any(term.fails for term in terms[:-1])
    if may_fail:
        g.line(f"{error} = None")
    for number, term in enumerate(terms):
        with g.source.detached() as lines:
            g.source.attach(term.lines)
            g.line(f"{result} = {term.code.text}", term.code)
        if term.fails and number < len(terms) - 1:
            with g.source.detached() as caught:
                g.handle(lines, f"{error} = {MESSAGE}; {result} = {operator == 'and'}")
            lines = caught
        if number:
            g.source.block(f"if {undecided}:", lines)
        else:
            g.source.attach(lines)
    if may_fail:
        failure = Lines(f"{g.refer(faults.fail)}({error})", fails=True)
        g.source.block(f"if {error} is not None and {undecided}:", failure)
    return Code(result, BOOL)


def conditional(g: Generator, node: Call, steps: list[paths.Step], *, raw: bool) -> Code:
    """`steps` lead on from whichever side is chosen."""
    condition = g.truth(g.value(node.arguments[0]))
    sides = []
    for side in node.arguments[1:]:
        with g.source.detached() as lines:
            code = g.branch(lambda side=side: paths.side(g, side, steps, raw=raw))  # type: ignore[misc]
            if g.is_metered:
                code = g.settled(code)
        sides.append(_Term(lines, code))
    return _choice(g, condition, *sides)


def _choice(g: Generator, condition: Code, then: _Term, otherwise: _Term) -> Code:
    kind = joined([then.code.type, otherwise.code.type])
    if not then.lines and not otherwise.lines:
        codes = (condition, then.code, otherwise.code)
        text = f"({then.code.text} if {condition.text} else {otherwise.code.text})"
        return Code(text, kind, any(code.fails for code in codes), any(code.breaks for code in codes))
    result = g.source.temporary()
    for header, side in ((f"if {condition.text}:", then), ("else:", otherwise)):
        with g.source.detached() as lines:
            g.source.attach(side.lines)
            g.line(f"{result} = {side.code.text}", side.code)
        lines.fails |= condition.fails
        g.source.block(header, lines)
    return Code(result, kind)


def optional_or(g: Generator, node: Call) -> Code:
    """`a.or(b)` and `a.orValue(b)`."""
    subject = g.named(g.value(operands(node)[0]))
    with g.source.detached() as lines:
        other = g.value(node.arguments[0])
    present = _present(g, subject, is_value=node.function == "orValue")
    absent = Code(f"{subject.text} is {g.refer(NONE)}", BOOL)
    return _choice(g, absent, _Term(lines, other), _Term(Lines(), present))


def _present(g: Generator, subject: Code, *, is_value: bool) -> Code:
    if g.minor < _STRICT_OPTIONALS:
        content = optionals.content_or_itself if is_value else optionals.itself
    else:
        content = optionals.value if is_value else optionals.optional
    kind = subject.type
    if subject.type.name == "optional_type":
        kind = subject.type.parameters[0] if is_value else subject.type
    return Code(f"{g.refer(content)}({subject.text})", kind, fails=True)
