"""From phrases to the nodes of the tree, with literals read and macros expanded."""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar

from gpusharing.cel.declarations import declarations
from gpusharing.cel.errors import CompileError
from gpusharing.cel.syntax.literals import BadLiteral, value_of
from gpusharing.cel.syntax.macros import READING_THE_TARGET_TWICE, BadUse, Use, has, member_macro
from gpusharing.cel.syntax.nodes import Ids, Maker
from gpusharing.cel.syntax.phrases import Part, Phrase
from gpusharing.cel.syntax.tokens import Token
from gpusharing.cel.tree import (
    ADD,
    AND,
    CONDITIONAL,
    DIVIDE,
    EQUALS,
    GREATER,
    GREATER_EQUALS,
    IN,
    INDEX,
    LESS,
    LESS_EQUALS,
    MODULO,
    MULTIPLY,
    NEGATE,
    NOT,
    NOT_EQUALS,
    OPTIONAL_INDEX,
    OPTIONAL_SELECT,
    OR,
    SUBTRACT,
    Call,
    Constantly,
    Entry,
    MakeList,
    MakeMap,
    MakeMessage,
    Name,
    Node,
    Select,
)
from gpusharing.cel.tree.walking import Steps, walk

_BINARY: Final = {
    "+": ADD, "-": SUBTRACT, "*": MULTIPLY, "/": DIVIDE, "%": MODULO, "in": IN,
    "<": LESS, "<=": LESS_EQUALS, ">": GREATER, ">=": GREATER_EQUALS, "==": EQUALS, "!=": NOT_EQUALS,
}  # fmt: skip
_RESERVED: Final = frozenset({
    "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
    "namespace", "null", "package", "return", "true", "var", "void", "while",
})  # fmt: skip
_NAMES_ESCAPED_SINCE: Final = 37


def build(root: Part, expression: str, minor: int) -> Node:
    builder = _Builder(expression, minor)
    node = walk(builder.visit, root)
    builder.raise_first_error()
    return node


T = TypeVar("T")
Building: TypeAlias = Steps[Part, Node]


class _Builder:
    def __init__(self, expression: str, minor: int) -> None:
        self._expression = expression
        self._minor = minor
        self._functions = declarations(minor).functions
        self._ids = Ids()
        self._first_error: CompileError | None = None
        self._visits: Mapping[str, Callable[[Sequence[Part]], Building | Node]] = {
            "expr": self._conditional,
            "conditionalor": self._or,
            "conditionaland": self._and,
            "relation": self._binary,
            "addition": self._binary,
            "multiplication": self._binary,
            "unary": self._unary,
            "member_dot": self._select,
            "member_dot_arg": self._member_call,
            "member_index": self._index,
            "member_object": self._message,
            "dot_ident": self._dotted_name,
            "ident_arg": self._call,
            "dot_ident_arg": self._dotted_call,
            "paren_expr": self._parenthesis,
            "list_lit": self._list,
            "map_lit": self._map,
        }

    def visit(self, part: Part) -> Building | Node:
        if isinstance(part, Phrase):
            return self._visits[part.name](part.parts)
        if part.type == "IDENT":
            return self._name(part)
        return self._literal(part)

    # --- Errors -------------------------------------------------------------------------------------------------------

    def _error(self, message: str, at: int) -> Node:
        """The first in the text counts, which need not be the first that is found."""
        if self._first_error is None or at < self._first_error.offset:
            self._first_error = CompileError(message, self._expression, at)
        return Constantly(id=self._ids.new(), at=at, value=None)

    def raise_first_error(self) -> None:
        if self._first_error is not None:
            raise self._first_error

    # --- Leaves -------------------------------------------------------------------------------------------------------

    def _literal(self, token: Token) -> Node:
        try:
            value = value_of(token)
        except BadLiteral as problem:
            return self._error(str(problem), token.at)
        return Constantly(id=self._ids.new(), at=token.at, value=value)

    def _name(self, token: Token, dot: str = "") -> Node:
        if token.text in _RESERVED:
            return self._error(f"{token.text!r} is a reserved word", token.at)
        return Name(id=self._ids.new(), at=token.at, name=dot + token.text)

    def _dotted_name(self, parts: Sequence[Part]) -> Node:
        return self._name(_token(parts[1]), ".")

    # --- Operators ----------------------------------------------------------------------------------------------------

    def _conditional(self, parts: Sequence[Part]) -> Building:
        condition, question, then, _, otherwise = parts
        arguments = ((yield condition), (yield then), (yield otherwise))
        return Call(id=self._ids.new(), at=_token(question).at, function=CONDITIONAL, arguments=arguments)

    def _or(self, parts: Sequence[Part]) -> Building:
        return (yield from self._logic(OR, "conditionalor", parts))

    def _and(self, parts: Sequence[Part]) -> Building:
        return (yield from self._logic(AND, "conditionaland", parts))

    def _logic(self, function: str, phrase: str, parts: Sequence[Part]) -> Building:
        operators = []
        terms = []
        left, operator, right = parts
        while True:
            operators.append(_token(operator))
            terms.append(right)
            if not isinstance(left, Phrase) or left.name != phrase:
                break
            left, operator, right = left.parts
        terms.append(left)
        nodes = []
        for term in reversed(terms):
            nodes.append((yield term))  # noqa: PERF401 (a comprehension cannot yield)
        return self._balanced(function, nodes, operators[::-1])

    def _balanced(self, function: str, terms: Sequence[Node], operators: Sequence[Token]) -> Node:
        """A long chain becomes a tree of little depth."""
        if not operators:
            return terms[0]
        middle = len(operators) // 2
        left = self._balanced(function, terms[: middle + 1], operators[:middle])
        right = self._balanced(function, terms[middle + 1 :], operators[middle + 1 :])
        return Call(id=self._ids.new(), at=operators[middle].at, function=function, arguments=(left, right))

    def _binary(self, parts: Sequence[Part]) -> Building:
        left_and_operator, right = parts
        left, operator = _phrase(left_and_operator).parts
        token = _token(operator)
        arguments = ((yield left), (yield right))
        return Call(id=self._ids.new(), at=token.at, function=_BINARY[token.text], arguments=arguments)

    def _unary(self, parts: Sequence[Part]) -> Building:
        operators, operand = parts
        first, count = _first_and_count(operators)
        argument = yield operand
        if count % 2 == 0:
            return argument
        function = NOT if first.text == "!" else NEGATE
        return Call(id=self._ids.new(), at=first.at, function=function, arguments=(argument,))

    def _parenthesis(self, parts: Sequence[Part]) -> Building:
        return (yield parts[1])

    # --- Members ------------------------------------------------------------------------------------------------------

    def _select(self, parts: Sequence[Part]) -> Building:
        target, dot, *question, field = parts
        operand = yield target
        name = self._field(_token(field))
        at = _token(dot).at
        if question:
            constant = Constantly(id=self._ids.new(), at=_token(field).at, value=name)
            return Call(id=self._ids.new(), at=at, function=OPTIONAL_SELECT, arguments=(operand, constant))
        return Select(id=self._ids.new(), at=at, operand=operand, field=name)

    def _field(self, token: Token) -> str:
        if token.type == "IDENT":
            return token.text
        if self._minor < _NAMES_ESCAPED_SINCE:
            self._error(f"names in backticks are understood since Kubernetes 1.{_NAMES_ESCAPED_SINCE}", token.at)
        return token.text[1:-1]

    def _index(self, parts: Sequence[Part]) -> Building:
        target, bracket, *question, index, _ = parts
        arguments = ((yield target), (yield index))
        function = OPTIONAL_INDEX if question else INDEX
        return Call(id=self._ids.new(), at=_token(bracket).at, function=function, arguments=arguments)

    # --- Calls --------------------------------------------------------------------------------------------------------

    def _call(self, parts: Sequence[Part], dot: str = "") -> Building:
        name, bracket, *between = parts
        token = _token(name)
        if token.text in _RESERVED:
            return self._error(f"{token.text!r} is a reserved word", token.at)
        arguments = yield from self._arguments(between)
        at = _token(bracket).at
        # A dot before the name says that no macro is meant.
        if token.text == "has" and len(arguments) == 1 and not dot:
            return self._expanded(has, Maker(self._ids, at), arguments[0])
        return Call(id=self._ids.new(), at=at, function=token.text, arguments=tuple(arguments))

    def _dotted_call(self, parts: Sequence[Part]) -> Building:
        return (yield from self._call(parts[1:], "."))

    def _member_call(self, parts: Sequence[Part]) -> Building:
        called_on, _, name, bracket, *between = parts
        function = _token(name).text
        at = _token(bracket).at
        target = yield called_on
        same_target = (yield called_on) if function in READING_THE_TARGET_TWICE else target
        arguments = yield from self._arguments(between)
        macro = member_macro(function, len(arguments))
        if macro is not None:
            use = Use(function, Maker(self._ids, at), target, same_target, arguments)
            expanded = self._expanded(macro, use)
            if expanded is not None:
                return expanded
        qualified = f"{_qualified(target)}.{function}"
        if qualified in self._functions:
            # The dots belong to its name: what is before the last is nothing that it is called on.
            return Call(id=self._ids.new(), at=at, function=qualified, arguments=tuple(arguments))
        return Call(id=self._ids.new(), at=at, function=function, target=target, arguments=tuple(arguments))

    def _arguments(self, between_brackets: Sequence[Part]) -> Generator[Part, Node, list[Node]]:
        nodes = []
        for argument in _sequence("exprlist", between_brackets):
            nodes.append((yield argument))  # noqa: PERF401 (a comprehension cannot yield)
        return nodes

    def _expanded(self, macro: Callable[..., T], *use: Any) -> T | Node:
        try:
            return macro(*use)
        except BadUse as problem:
            return self._error(str(problem), problem.at)

    # --- Lists, maps, messages ----------------------------------------------------------------------------------------

    def _list(self, parts: Sequence[Part]) -> Building:
        bracket, *between = parts
        elements = []
        optional = set()
        for position, part in enumerate(_sequence("elements", between)):
            is_optional = isinstance(part, Phrase) and part.name == "element"
            if is_optional:
                optional.add(position)
            elements.append((yield _phrase(part).parts[1] if is_optional else part))
        at = _token(bracket).at
        return MakeList(id=self._ids.new(), at=at, elements=tuple(elements), optional=frozenset(optional))

    def _map(self, parts: Sequence[Part]) -> Building:
        bracket, *between = parts
        entries = []
        for phrase in _sequence("mapinits", between):
            *question, key, colon, value = _phrase(phrase).parts
            key_node = yield key
            value_node = yield value
            at = _token(colon).at
            entries.append(Entry(id=self._ids.new(), at=at, key=key_node, value=value_node, optional=bool(question)))
        return MakeMap(id=self._ids.new(), at=_token(bracket).at, entries=tuple(entries))

    def _message(self, parts: Sequence[Part]) -> Building:
        type_name, bracket, *between = parts
        at = _token(bracket).at
        name = _dotted(type_name)
        if name is None:
            return self._error("unexpected '{' after what is no name of a type", at)
        fields = []
        optional = set()
        for position, phrase in enumerate(_sequence("fieldinits", between)):
            *question, field, _, value = _phrase(phrase).parts
            if question:
                optional.add(position)
            fields.append((self._field(_token(field)), (yield value)))
        return MakeMessage(
            id=self._ids.new(), at=at, type_name=name, fields=tuple(fields), optional=frozenset(optional)
        )


def _token(part: Part) -> Token:
    assert isinstance(part, Token), part.name  # noqa: S101 (by the grammar)
    return part


def _phrase(part: Part) -> Phrase:
    assert isinstance(part, Phrase), part.text  # noqa: S101 (by the grammar)
    return part


def _sequence(name: str, between_brackets: Sequence[Part]) -> list[Part]:
    """The members of a list of expressions, which is nested to the left, and of which nothing is left if it is one."""
    found: list[Part] = []
    if between_brackets[:-1]:
        rest = between_brackets[0]
        while isinstance(rest, Phrase) and rest.name == name:
            rest, _, last = rest.parts
            found.append(last)
        if not (isinstance(rest, Token) and rest.type == ","):
            found.append(rest)
    return found[::-1]


def _first_and_count(operators: Part) -> tuple[Token, int]:
    count = 1
    while isinstance(operators, Phrase):
        operators = operators.parts[0]
        count += 1
    return operators, count


def _qualified(node: Node | None) -> str:
    """a.b.c, or nothing if it is something else."""
    fields: list[str] = []
    while isinstance(node, Select) and not node.test:
        fields.append(node.field)
        node = node.operand
    if not isinstance(node, Name):
        return ""
    return ".".join([node.name.removeprefix("."), *reversed(fields)])


def _dotted(part: Part) -> str | None:
    names: list[str] = []
    while isinstance(part, Phrase) and part.name == "member_dot" and len(part.parts) == 3:
        part, _, field = part.parts
        if _token(field).type != "IDENT":
            return None
        names.append(_token(field).text)
    if isinstance(part, Phrase) and part.name == "dot_ident":
        names += [_token(part.parts[1]).text, ""]
    elif isinstance(part, Token) and part.type == "IDENT":
        names.append(part.text)
    else:
        return None
    return ".".join(reversed(names))
