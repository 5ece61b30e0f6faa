"""Nodes made one after the other: numbered, and not more than anyone can check in time."""

from typing import Final

from gpusharing.cel.errors import CompileError
from gpusharing.cel.tree import (
    RESULT,
    UNUSED,
    Call,
    Comprehension,
    Constant,
    Constantly,
    MacroName,
    MakeList,
    MakeMap,
    Name,
    Node,
    Select,
)

_MOST: Final = 20_000
"""Only chains of optMap reach it, since each doubles what it is called on: twenty of them take Kubernetes down."""


class Ids:
    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0

    def new(self) -> int:
        self._last += 1
        if self._last > _MOST:
            raise CompileError("the expression is too long when its macros are written out")
        return self._last


class Maker:
    """Makes the nodes of a macro: they all stand where its opening bracket is."""

    __slots__ = ("_at", "_ids")

    def __init__(self, ids: Ids, at: int) -> None:
        self._ids = ids
        self._at = at

    def name(self, name: str) -> Name:
        return Name(id=self._ids.new(), at=self._at, name=name)

    def result(self) -> Name:
        return self.name(RESULT)

    def constant(self, value: Constant) -> Constantly:
        return Constantly(id=self._ids.new(), at=self._at, value=value)

    def list(self, *elements: Node) -> MakeList:
        return MakeList(id=self._ids.new(), at=self._at, elements=elements)

    def empty_map(self) -> MakeMap:
        return MakeMap(id=self._ids.new(), at=self._at, entries=())

    def call(self, function: str, *arguments: Node) -> Call:
        return Call(id=self._ids.new(), at=self._at, function=function, arguments=arguments)

    def member_call(self, target: Node, function: str, *arguments: Node) -> Call:
        return Call(id=self._ids.new(), at=self._at, function=function, target=target, arguments=arguments)

    def presence_test(self, operand: Node, field: str) -> Select:
        return Select(id=self._ids.new(), at=self._at, operand=operand, field=field, test=True)

    def loop(
        self,
        macro: MacroName,
        over: Node,
        variables: tuple[str, str],
        *,
        initial: Node,
        condition: Node,
        step: Node,
        result: Node | None = None,
    ) -> Comprehension:
        return Comprehension(
            id=self._ids.new(),
            at=self._at,
            macro=macro,
            range=over,
            variable=variables[0],
            second_variable=variables[1],
            accumulator=RESULT,
            initial=initial,
            condition=condition,
            step=step,
            result=result or self.result(),
        )

    def binding(self, macro: MacroName, variable: str, value: Node, body: Node) -> Comprehension:
        """A loop that never turns: what it accumulates is the value, under the variable's name."""
        return Comprehension(
            id=self._ids.new(),
            at=self._at,
            macro=macro,
            range=self.list(),
            variable=UNUSED,
            accumulator=variable,
            initial=value,
            condition=self.constant(value=False),
            step=self.name(variable),
            result=body,
        )
