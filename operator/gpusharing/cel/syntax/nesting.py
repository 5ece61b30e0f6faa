"""How deep an expression may nest: cel-go's parser gives up at 250, and it counts in several ways."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from gpusharing.cel.errors import CompileError
from gpusharing.cel.syntax.phrases import Part, Phrase
from gpusharing.cel.tree.walking import Steps, walk

_DEEPEST: Final = 250


class _Depths(NamedTuple):
    """How many of each are one within the other, at most."""

    expressions: int = 0
    relations: int = 0
    sums: int = 0  # and products
    visits: int = 0  # of what cel-go counts when it walks over what it has parsed


_SUM, _RELATION, _EXPRESSION = 1, 2, 3
_RANKS: Final = {
    "addition": _SUM,
    "multiplication": _SUM,
    "relation": _RELATION,
    "conditionaland": _EXPRESSION,
    "conditionalor": _EXPRESSION,
    "expr": _EXPRESSION,
}
_VISITED: Final = frozenset({"addition", "multiplication", "relation", "expr"})
_AFTER_BRACKET: Final = {
    "paren_expr": 1,
    "list_lit": 1,
    "map_lit": 1,
    "ident_arg": 2,
    "dot_ident_arg": 3,
    "member_dot_arg": 4,
    "member_index": 2,
    "member_object": 2,
}
_SEQUENCES: Final = frozenset({"exprlist", "elements", "element", "fieldinits", "fieldinit", "mapinits", "mapinit"})
_PUNCTUATION: Final = frozenset("()[]{},:?")


def check_nesting(text: str, root: Part) -> None:
    # Each level takes a character at least.
    if len(text) >= _DEEPEST and max(_as_expression(root, walk(_depths, root))) > _DEEPEST:
        raise CompileError(f"more than {_DEEPEST} levels of nesting", text)


def _depths(part: Part) -> Steps[Part, _Depths] | _Depths:
    if not isinstance(part, Phrase):
        return _Depths()
    if part.name in _RANKS:
        return _of_operator(part)
    if part.name in _SEQUENCES:
        return _of_expressions(part.parts)
    return _of_operand(part)


def _of_operator(phrase: Phrase) -> Steps[Part, _Depths]:
    rank = _RANKS[phrase.name]
    first, *others = phrase.parts
    if rank < _EXPRESSION and isinstance(first, Phrase):
        first = first.parts[0]  # the other part of it is the operator
    deepest = _entered(first, (yield first), rank)
    right = others[-1]
    for other in others:
        if _is_operand(other):
            depths = _entered(other, (yield other), rank)
            if other is right:
                depths = _one_more(phrase.name, depths)
            deepest = _deepest(deepest, depths)
    return deepest._replace(visits=deepest.visits + (phrase.name in _VISITED))


def _one_more(name: str, depths: _Depths) -> _Depths:
    """What is on the right is parsed before the rule for the left is done with."""
    match name:
        case "addition" | "multiplication":
            return depths._replace(sums=depths.sums + 1)
        case "relation":
            return depths._replace(relations=depths.relations + 1)
        case "expr":
            return depths._replace(expressions=depths.expressions + 1)
    return depths


def _of_expressions(parts: Iterable[Part]) -> Steps[Part, _Depths]:
    deepest = _Depths()
    for part in parts:
        if isinstance(part, Phrase) and part.name in _SEQUENCES:
            deepest = _deepest(deepest, (yield part))
        elif _is_operand(part):
            deepest = _deepest(deepest, _as_expression(part, (yield part)))
    return deepest


def _of_operand(phrase: Phrase) -> Steps[Part, _Depths]:
    deepest = _Depths()
    if phrase.name == "unary":
        deepest = yield phrase.parts[-1]
    elif phrase.name in ("member_dot", "member_dot_arg", "member_index"):
        deepest = yield phrase.parts[0]
    bracket = _AFTER_BRACKET.get(phrase.name)
    if bracket is not None:
        deepest = _deepest(deepest, (yield from _of_expressions(phrase.parts[bracket:])))
    if phrase.name.startswith("member_") and phrase.name != "member_object":
        deepest = deepest._replace(visits=deepest.visits + 1)
    return deepest


def _is_operand(part: Part) -> bool:
    return isinstance(part, Phrase) or part.type not in _PUNCTUATION


def _as_expression(part: Part, depths: _Depths) -> _Depths:
    depths = _entered(part, depths, _EXPRESSION)
    return depths._replace(expressions=depths.expressions + 1)


def _entered(part: Part, depths: _Depths, rank: int) -> _Depths:
    """With the rules of cel-go's grammar that lead to it, where one of that rank is expected."""
    own = _RANKS.get(part.name, 0) if isinstance(part, Phrase) else 0
    return depths._replace(
        sums=depths.sums + (own < _SUM <= rank),
        relations=depths.relations + (own < _RELATION <= rank),
    )


def _deepest(left: _Depths, right: _Depths) -> _Depths:
    return _Depths(*map(max, left, right))
