"""What an evaluation can cost at most, on any device that the ResourceSlice API admits.

The estimate is no such bound: it takes fields of unknown types for free, for instance, and forgets the items of lists
whose type it does not know. This one is coarser but certain. Code of an expression that cannot become too expensive
need not count what it costs.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, NamedTuple

from gpusharing.cel.checking.checked import Checked
from gpusharing.cel.cost.prices import IDENTIFIER_OR_SELECT, NEW_LIST, NEW_MAP, NEW_MESSAGE
from gpusharing.cel.cost.results import formatted, result_of
from gpusharing.cel.cost.runtime import price_of
from gpusharing.cel.cost.shapes import ENDLESS, SCALAR, Shape, shape, union
from gpusharing.cel.cost.work import work_of
from gpusharing.cel.declarations.types import DEVICE
from gpusharing.cel.tree import (
    ADD,
    AND,
    CONDITIONAL,
    INDEX,
    OPTIONAL_INDEX,
    OPTIONAL_SELECT,
    OR,
    RESULT,
    Call,
    Comprehension,
    Constant,
    Constantly,
    MakeList,
    MakeMap,
    MakeMessage,
    Name,
    Node,
    Select,
)
from gpusharing.cel.tree.walking import Steps, walk


class Bound(NamedTuple):
    cost: int
    """In Kubernetes' units."""
    work: int
    """Steps, see `work`. It bounds the size of all values, too."""


def bound(checked: Checked) -> Bound:
    """Very large numbers stand for no bound at all."""
    outcome = walk(_Bounds(checked).visit, checked.root)
    return Bound(outcome.cost, outcome.work)


class _Outcome(NamedTuple):
    """Of a part of the expression."""

    shape: Shape
    cost: int = 0
    work: int = 0


_DEVICE_VOLUME: Final = 32 * (63 + 32 + 64) + 48 * 64  # the limits are on all attributes of all domains together
_ATTRIBUTE: Final = Shape(64, Shape(64), volume=48 * 64)  # a string, or a list
_ATTRIBUTES: Final = Shape(32, Shape(32, _ATTRIBUTE, keys=32, volume=_DEVICE_VOLUME), keys=63, volume=_DEVICE_VOLUME)
_CAPACITIES: Final = Shape(32, Shape(32, SCALAR, keys=32), keys=63)
_DEVICE_FIELDS: Final = {
    "driver": Shape(63),
    "allowMultipleAllocations": SCALAR,
    "attributes": _ATTRIBUTES,
    "capacity": _CAPACITIES,
}
_DEVICE: Final = Shape(len(_DEVICE_FIELDS), union(_DEVICE_FIELDS.values()), keys=max(map(len, _DEVICE_FIELDS)))
_STEPS: Final = frozenset((INDEX, OPTIONAL_INDEX, OPTIONAL_SELECT))
_STEP: Final = 2 * IDENTIFIER_OR_SELECT
"""What it starts from may have to be paid for, too."""


class _Bounds:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._variables: defaultdict[str, list[Shape]] = defaultdict(list)
        self._sums_of_lists = 0
        """So many have been seen."""
        self._visitors: dict[type[Node], Callable[[Any], Steps[Node, _Outcome] | _Outcome]] = {
            Constantly: lambda node: _Outcome(_shape_of(node.value)),
            Name: self._name,
            Select: self._name_or_path,
            Call: self._path_or_call,
            MakeList: self._make_list,
            MakeMap: self._make_map,
            MakeMessage: self._make_message,
            Comprehension: self._bind_or_loop,
        }

    def visit(self, node: Node) -> Steps[Node, _Outcome] | _Outcome:
        return self._visitors[type(node)](node)

    def _each(self, nodes: Iterable[Node]) -> Generator[Node, _Outcome, list[_Outcome]]:
        outcomes = []
        for node in nodes:
            outcome = yield node
            outcomes.append(outcome)
        return outcomes

    # --- Names and fields ---------------------------------------------------------------------------------------------

    def _name(self, node: Node) -> _Outcome:
        name = self._checked.names[node.id]
        of_device = _DEVICE if name.endswith("device") else SCALAR
        shapes = self._variables.get(name)
        if not shapes:
            return _Outcome(of_device, IDENTIFIER_OR_SELECT)
        # `.device` may be the device though there is a variable of that name.
        is_global = isinstance(node, Name) and node.name.startswith(".")
        return _Outcome(shapes[-1].union(of_device) if is_global else shapes[-1], IDENTIFIER_OR_SELECT)

    def _name_or_path(self, node: Select) -> Steps[Node, _Outcome] | _Outcome:
        return self._name(node) if node.id in self._checked.names else self._path(node)

    def _path(self, node: Node) -> Steps[Node, _Outcome]:
        """All steps at once: half of what people write are paths."""
        steps: list[Select | Call] = []
        while True:
            if isinstance(node, Select) and node.id not in self._checked.names:
                steps.append(node)
                node = node.operand
            elif isinstance(node, Call) and node.function in _STEPS:
                steps.append(node)
                node = node.arguments[0]
            else:
                break
        part, cost, work = yield node
        for step in reversed(steps):
            if isinstance(step, Call):
                key = yield step.arguments[1]
                cost += key.cost
                work += key.work
                part = part.content
            elif step.test:
                part = SCALAR
            elif self._checked.types[step.operand.id] == DEVICE:
                part = _DEVICE_FIELDS[step.field]
            else:
                part = part.content
            cost += _STEP
            work += 1
        return _Outcome(part, cost, work)

    # --- Calls --------------------------------------------------------------------------------------------------------

    def _path_or_call(self, node: Call) -> Steps[Node, _Outcome]:
        return self._path(node) if node.function in _STEPS else self._call(node)

    def _call(self, node: Call) -> Steps[Node, _Outcome]:
        cost = work = 0
        shapes = []
        operands = node.arguments if node.target is None else (node.target, *node.arguments)
        for operand in operands:
            outcome = yield operand
            shapes.append(outcome.shape)
            cost += outcome.cost
            work += outcome.work
        if node.function in (AND, OR):
            return _Outcome(SCALAR, cost, work + 1)
        if node.function == CONDITIONAL:
            return _Outcome(shapes[1].union(shapes[2]), cost, work + 1)
        overloads = self._checked.overloads[node.id]
        if node.function == ADD and "add_list" in overloads and not _is_accumulator(node.arguments[0]):
            self._sums_of_lists += 1
        result = self._result(node, shapes)
        price = price_of(node.function, overloads, self._checked.minor)
        cost += price if isinstance(price, int) else price.at_most(shapes, result)
        constant_pattern = len(operands) > 1 and isinstance(operands[1], Constantly)
        work += work_of(node.function, overloads, shapes, result, has_constant_pattern=constant_pattern)
        return _Outcome(result, cost, work)

    def _result(self, node: Call, shapes: list[Shape]) -> Shape:
        if node.function == "format" and isinstance(node.target, Constantly) and isinstance(node.target.value, str):
            return formatted(node.target.value, shapes[1])
        return result_of(node.function, shapes, self._checked.types[node.id])

    # --- Literals -----------------------------------------------------------------------------------------------------

    def _make_list(self, node: MakeList) -> Steps[Node, _Outcome]:
        elements = yield from self._each(node.elements)
        cost, work = _totals(elements)
        items = union(element.shape for element in elements) if elements else None
        return _Outcome(shape(len(elements), items), cost + NEW_LIST, work + len(elements) + 1)

    def _make_map(self, node: MakeMap) -> Steps[Node, _Outcome]:
        keys = yield from self._each(entry.key for entry in node.entries)
        values = yield from self._each(entry.value for entry in node.entries)
        cost, work = _totals(keys + values)
        items = union(value.shape for value in values) if values else None
        longest_key = max((key.shape.length for key in keys), default=0)
        return _Outcome(shape(len(keys), items, longest_key), cost + NEW_MAP, work + len(keys) + 1)

    def _make_message(self, node: MakeMessage) -> Steps[Node, _Outcome]:
        values = yield from self._each(value for _, value in node.fields)
        cost, work = _totals(values)
        return _Outcome(ENDLESS if values else SCALAR, cost + NEW_MESSAGE, work + 1)

    # --- Loops --------------------------------------------------------------------------------------------------------

    def _bind_or_loop(self, node: Comprehension) -> Steps[Node, _Outcome]:
        return self._bind(node) if node.macro in ("bind", "opt_map", "opt_flat_map") else self._loop(node)

    def _bind(self, node: Comprehension) -> Steps[Node, _Outcome]:
        initial = yield node.initial
        sums_before = self._sums_of_lists
        self._variables[node.accumulator].append(initial.shape)
        result = yield node.result
        self._variables[node.accumulator].pop()
        cost, work = _totals((initial, result))
        if self._may_be_empty_list(node.initial, initial.shape) and self._sums_of_lists > sums_before:
            # A variable that begins as an empty list grows by all that is added to it.
            return _Outcome(ENDLESS, ENDLESS.length, ENDLESS.length)
        return _Outcome(result.shape, cost, work + 1)

    def _may_be_empty_list(self, node: Node, value: Shape) -> bool:
        """No attribute is."""
        return value is not _ATTRIBUTE and self._checked.types[node.id].name in ("list", "dyn", "any")

    def _loop(self, node: Comprehension) -> Steps[Node, _Outcome]:
        whole = yield node.range
        turns = whole.shape.length
        item = whole.shape.content.union(Shape(max(whole.shape.keys, 1)))
        variables = [node.variable, node.second_variable] if node.second_variable else [node.variable]
        for variable in variables:
            self._variables[variable].append(item)
        # As it is in the first turn: what a turn adds is what all of them add.
        self._variables[node.accumulator].append(SCALAR if isinstance(node.initial, Constantly) else shape(0))
        condition, step = (yield node.condition), (yield node.step)
        for variable in variables:
            self._variables[variable].pop()
        result = yield node.result
        self._variables[node.accumulator].pop()
        turn_cost, turn_work = _totals((condition, step))
        accumulated = SCALAR
        if not isinstance(node.initial, Constantly):
            accumulated = shape(turns * step.shape.length, step.shape.items, step.shape.keys)
        return _Outcome(
            accumulated,
            whole.cost + turns * turn_cost + result.cost,
            whole.work + turns * (turn_work + 1) + result.work + accumulated.volume,
        )


def _totals(outcomes: Iterable[_Outcome]) -> tuple[int, int]:
    cost = work = 0
    for outcome in outcomes:
        cost += outcome.cost
        work += outcome.work
    return cost, work


def _shape_of(constant: Constant) -> Shape:
    return Shape(len(constant)) if isinstance(constant, str | bytes) else SCALAR


def _is_accumulator(node: Node) -> bool:
    return isinstance(node, Name) and node.name == RESULT
