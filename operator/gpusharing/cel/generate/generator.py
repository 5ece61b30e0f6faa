"""The walk over the tree. What depends on the kind of node is in the modules beside this one."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple

from gpusharing.cel.checking.checked import Checked
from gpusharing.cel.declarations.types import BOOL, DYN, INT, STRING, UINT, Type
from gpusharing.cel.errors import CompileError, EvaluationError
from gpusharing.cel.generate import calls, containers, folding, logic, loops, paths
from gpusharing.cel.generate.code import NOT_CONSTANT, Code, constant_type
from gpusharing.cel.generate.patterns import Patterns
from gpusharing.cel.generate.source import MESSAGE, Detached, Lines, Source
from gpusharing.cel.runtime.faults import absorbed
from gpusharing.cel.tree import (
    CONDITIONAL,
    Call,
    Comprehension,
    Constantly,
    MakeList,
    MakeMap,
    MakeMessage,
    Name,
    Node,
    Select,
)

_DEEPEST: Final = 20
"""Levels of the tree in one Python function: CPython refuses 100 levels of indentation and 200 of parentheses."""
_MOST_BLOCKS: Final = 12
"""Loops and `try` inside each other in one Python function: CPython refuses 20."""


# The least integer, taken from a small quantity, is added to it; from a big one it is taken away as it should be.
_FORM_MATTERS: Final = frozenset(("quantity_is_integer", "quantity_get_int", "quantity_sub", "quantity_sub_int"))
_FORM_CHANGES: Final = frozenset(("quantity_add", "quantity_add_int"))
_LAST_THAT_CHANGES: Final = 36
"""The last minor version of Kubernetes in which adding to a quantity may change it."""


def _sees_forms_of_quantities(checked: Checked) -> bool:
    telling = _FORM_MATTERS | _FORM_CHANGES if checked.minor <= _LAST_THAT_CHANGES else _FORM_MATTERS
    return any(not telling.isdisjoint(overloads) for overloads in checked.overloads.values())


_PLAIN_KEYS: Final = frozenset((STRING, INT, UINT, BOOL))


def _tells_lists_apart(checked: Checked) -> bool:
    keys = (type_.parameters[0] for type_ in checked.types.values() if type_.name == "map")
    return any(key not in _PLAIN_KEYS for key in keys)


_PATHS: Final = paths.INDEXING | {CONDITIONAL}
_WRITERS: Final[Mapping[type[Node], Callable[["Generator", Any], Code]]] = {
    Constantly: lambda g, node: g.constant(node.value),
    Name: paths.attribute,
    Select: paths.attribute,
    Call: paths.attribute,
    MakeList: containers.make_list,
    MakeMap: containers.make_map,
    MakeMessage: containers.make_message,
    Comprehension: loops.comprehension,
}


class _Function(NamedTuple):
    lines: Lines
    scope: Mapping[str, Code]
    compile: Callable[[], Code]


class Generator:
    """Of one expression. `metered`: the code counts what Kubernetes charges, as it goes along."""

    def __init__(self, checked: Checked, *, metered: bool) -> None:
        self.minor = checked.minor
        self.types = checked.types
        self.overloads = checked.overloads
        self.names = checked.names
        self.is_metered = metered
        self.source = Source()
        self.patterns = Patterns()
        self.scope: Mapping[str, Code] = {}
        self.sees_forms_of_quantities = _sees_forms_of_quantities(checked)
        """Whether it matters to the expression if a quantity was changed before."""
        self.tells_lists_apart = _tells_lists_apart(checked)
        """Whether lists may be keys of a map: then two that say the same are two."""
        self._definitions = Lines()
        self._depth = 0
        self._pending: deque[_Function] = deque()

    def run(self, root: Node, header: str) -> str:
        """The source of the function, and of those inside it."""
        main = self._function(self.source.lines, header, {}, lambda: self.value(root))
        self._compile(main)
        while self._pending:
            self._compile(self._pending.popleft())
        if self.sees_forms_of_quantities:
            main.lines.items.insert(0, "d = d.with_own_quantities()")
        return self.source.render()

    # --- Expressions --------------------------------------------------------------------------------------------------

    def value(self, node: Node) -> Code:
        if self._depth >= _DEEPEST or self.source.blocks >= _MOST_BLOCKS:
            constant = folding.fold(self, node)
            if constant is not NOT_CONSTANT:
                return self.constant(constant)
            return self._outlined(lambda: self.value(node), calls.certain_type(node))
        self._depth += 1
        code = self._value(node)
        self._depth -= 1
        return self.settled(code) if self.is_metered else code

    def _value(self, node: Node) -> Code:
        if type(node) is Call and node.function not in _PATHS:
            return calls.call(self, node)
        return _WRITERS[type(node)](self, node)

    def branch(self, compile: Callable[[], Code]) -> Code:  # noqa: A002
        """As deep in the tree as `value`, but not by way of it."""
        if self._depth >= _DEEPEST or self.source.blocks >= _MOST_BLOCKS:
            return self._outlined(compile, DYN)
        self._depth += 1
        code = compile()
        self._depth -= 1
        return code

    def constant(self, value: Any) -> Code:
        return Code(self.source.constant(value), constant_type(value), constant=value)

    def refer(self, value: Any) -> str:
        """The name of something of ours."""
        return self.source.constant(value)

    def truth(self, code: Code) -> Code:
        """The value, which must be a bool."""
        if code.type == BOOL:
            return code
        return Code(f"{self.refer(logic.boolean)}({code.text})", BOOL, fails=True, breaks=code.breaks)

    def settled(self, code: Code) -> Code:
        """A name for the value, which is computed now if that may fail."""
        return self.named(code) if code.fails else code

    def named(self, code: Code) -> Code:
        if code.is_name:
            return code
        name = self.source.temporary()
        self.line(f"{name} = {code.text}", code)
        return Code(name, code.type)

    def fail(self, node: Node, message: str) -> CompileError:
        return CompileError(message, offset=node.at)

    # --- Statements ---------------------------------------------------------------------------------------------------

    def line(self, text: str, *evaluated: Code) -> None:
        """A statement that evaluates these."""
        fails = any(code.fails for code in evaluated)
        self.source.line(text, fails=fails, breaks=fails and any(code.breaks for code in evaluated))

    def charge(self, cost: int) -> None:
        if self.is_metered:
            self.source.charge(cost)

    def catching(self) -> Detached:
        """Lines for the body of a `try`."""
        return self.source.detached(blocks=1)

    def handle(self, body: Lines, failure: str, *, fails: bool = False) -> None:
        """`failure` is what to do with the message, in whose place it has MESSAGE."""
        self.source.block("try:", body, handled=True)
        # The message and not the exception, which would hold on to this call's frame, and the frame to it.
        handler = Lines(failure.replace(MESSAGE, f"{self.refer(absorbed)}()"))
        self.source.block(f"except {self.refer(EvaluationError)}:", handler)
        self.source.lines.fails |= fails

    def in_order(self, nodes: Iterable[Node]) -> list[Code]:
        """The values of parts of which none is evaluated after one that failed."""
        return self.done_in_order(partial(self._part, node) for node in nodes)

    def _part(self, node: Node) -> Code:
        return self.constant(node.value) if isinstance(node, Constantly) else self.value(node)

    def done_in_order(self, steps: Iterable[Callable[[], Code]]) -> list[Code]:
        codes: list[Code] = []
        for step in steps:
            with self.source.detached() as lines:
                code = step()
            if lines.breaks:
                codes = [self.settled(earlier) for earlier in codes]
            self.source.attach(lines)
            codes.append(code)
        return codes

    @contextmanager
    def nested(self, variables: Mapping[str, Code]) -> Iterator[Lines]:
        """Lines for the body of a loop."""
        outer = self.scope
        self.scope = {**outer, **variables}
        with self.catching() as lines:
            yield lines
        self.scope = outer

    # --- Functions inside the function --------------------------------------------------------------------------------

    def _outlined(self, compile: Callable[[], Code], kind: Type) -> Code:  # noqa: A002
        """A call of a function that is written later: neither Python's nor our own recursion goes deeper here."""
        name = self.source.function()
        self._pending.append(self._function(self._definitions, f"def {name}():", self.scope, compile))
        return Code(f"{name}()", kind, fails=True, breaks=True)

    def define(self, body: Lines) -> str:
        """The name of a function without parameters."""
        name = self.source.function()
        self._definitions.items.append((f"def {name}():", body))
        if self.is_metered:
            body.items.insert(0, body.work())
        return name

    @contextmanager
    def own_definitions(self) -> Iterator[Lines]:
        """The functions that are defined inside, for the function that what is written there will perhaps become."""
        outer, self._definitions = self._definitions, Lines()
        yield self._definitions
        self._definitions = outer

    def adopt(self, definitions: Lines) -> None:
        self._definitions.items += definitions.items

    def _function(
        self,
        place: Lines,
        header: str,
        scope: Mapping[str, Code],
        compile: Callable[[], Code],  # noqa: A002
    ) -> _Function:
        lines = Lines()
        place.items.append((header, lines))
        return _Function(lines, scope, compile)

    def _compile(self, function: _Function) -> None:
        self._definitions, self.scope = function.lines, function.scope
        with self.source.detached() as body:
            code = function.compile()
            self.line(f"return {code.text}", code)
        if self.is_metered:
            body.items.insert(0, body.work())
        # The functions inside it come first: they must be there when they are called.
        function.lines.items += body.items
