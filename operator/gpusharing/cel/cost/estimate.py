"""The estimate of an expression's cost before anyone evaluates it, exactly as cel-go's checker/cost.go makes it.

The API server refuses a selector whose estimate exceeds the limit, so being nearly right would not do: what looks odd
here (that a field of an unknown type is free, for instance) is so there. The estimate is no upper bound of what an
evaluation costs; see `bound` for one.
"""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from gpusharing.cel.checking.checked import Checked
from gpusharing.cel.cost.calls import CallForm, Operand, estimate_call
from gpusharing.cel.cost.device_sizes import size_at
from gpusharing.cel.cost.paths import NOWHERE, Path
from gpusharing.cel.cost.prices import IDENTIFIER_OR_SELECT, NEW_LIST, NEW_MAP, NEW_MESSAGE
from gpusharing.cel.cost.ranges import EMPTY, NOTHING, ONE, UNKNOWN, Range, fixed, total
from gpusharing.cel.declarations.types import BOOL, DOUBLE, DURATION, INT, NULLABLE, TIMESTAMP, UINT, Type
from gpusharing.cel.tree import (
    ADD,
    AND,
    CONDITIONAL,
    OR,
    RESULT,
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
from gpusharing.cel.tree.walking import Steps, walk

Estimate: TypeAlias = Range
"""In Kubernetes' units. What counts is the maximum."""


def estimate(checked: Checked) -> Estimate:
    return walk(_Estimator(checked).visit, checked.root)


class _Entries(NamedTuple):
    """What is known about the sizes of what a list or map holds."""

    is_list: bool
    keys: Range
    values: Range

    def union(self, other: "_Entries") -> "_Entries":
        return _Entries(self.is_list, self.keys.union(other.keys), self.values.union(other.values))


class _Variable(NamedTuple):
    path: Path
    size: Range | None
    entries: _Entries | None = None


_SCALARS: Final = (BOOL, INT, UINT, DOUBLE, DURATION, TIMESTAMP)
_FREE_TO_SELECT_FROM: Final = ("dyn", "any", "optional_type")
_LITERALLY_ACCUMULATING: Final = "__result__"
"""A name that cel-go once gave to accumulators; `cel.bind` with a variable of that name is taken for a loop."""


class _Estimator:
    def __init__(self, checked: Checked) -> None:
        self._types = checked.types
        self._overloads = checked.overloads
        self._names = checked.names
        self._minor = checked.minor
        self._variables: defaultdict[str, list[_Variable]] = defaultdict(list)
        # By the id of nodes:
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, _Entries] = {}
        self._visitors: dict[type[Node], Callable[[Any], Steps[Node, Range] | Range]] = {
            Constantly: lambda _node: NOTHING,
            Name: self._name,
            Select: self._name_or_select,
            Call: self._dyn_or_call,
            MakeList: self._make_list,
            MakeMap: self._make_map,
            MakeMessage: self._make_message,
            Comprehension: self._bind_or_loop,
        }

    # --- The walk -----------------------------------------------------------------------------------------------------

    def visit(self, node: Node) -> Steps[Node, Range] | Range:
        return self._visitors[type(node)](node)

    def _name(self, node: Node) -> Range:
        name = self._names[node.id]
        variable = self._variable(name)
        self._paths[node.id] = variable.path if variable else Path.of_variable(name)
        return fixed(IDENTIFIER_OR_SELECT)

    def _name_or_select(self, node: Select) -> Steps[Node, Range] | Range:
        return self._name(node) if node.id in self._names else self._select(node)

    def _select(self, node: Select) -> Steps[Node, Range]:
        cost = yield node.operand
        if node.test:
            return cost
        self._paths[node.id] = self._path(node.operand).to(node.field)
        is_free = self._types[node.operand.id].name in _FREE_TO_SELECT_FROM
        return cost if is_free else cost.plus(fixed(IDENTIFIER_OR_SELECT))

    def _dyn_or_call(self, node: Call) -> Steps[Node, Range]:
        return self._dyn(node) if node.function == "dyn" else self._call(node)

    def _dyn(self, node: Call) -> Steps[Node, Range]:
        (argument,) = node.arguments
        cost = yield argument
        self._take_over_sizes(node, argument)
        return cost.plus(ONE)

    def _call(self, node: Call) -> Steps[Node, Range]:
        costs = []
        operands = []
        for argument in node.arguments:
            costs.append((yield argument))
            operands.append(self._operand(argument))
        if node.function in (AND, OR):
            left, right = costs
            return Range(left.min, left.plus(right).max)
        if node.function == CONDITIONAL:
            return self._conditional(node, costs)
        if node.function == ADD:
            self._join_entries(node, *node.arguments)
        if node.target is not None:
            costs.append((yield node.target))
            operands.insert(0, self._operand(node.target))
        overloads = self._overloads[node.id]
        forms = [CallForm(node.function, overload, operands, self._minor) for overload in overloads]
        return self._any_overload(node, forms).plus(total(costs))

    def _any_overload(self, node: Call, forms: list[CallForm]) -> Range:
        cost = EMPTY
        size: Range | None = None
        for form in forms:
            expected = estimate_call(form)
            cost = cost.union(expected.cost)
            if expected.size is not None:
                size = size.union(expected.size) if size else expected.size
            if form.overload in _ITEMS:
                container = node.arguments[0]
                entries = self._entries_of(container)
                size = entries.values if entries else None
                self._paths[node.id] = self._path(container).to(_ITEMS[form.overload])
            if size is None:
                size = self._size(node)
        if size is not None:
            self._sizes[node.id] = size
        return cost

    def _conditional(self, node: Call, costs: list[Range]) -> Range:
        _, then, otherwise = node.arguments
        self._sizes[node.id] = self._size_or_unknown(then).union(self._size_or_unknown(otherwise))
        self._join_entries(node, then, otherwise)
        return costs[0].plus(costs[1].union(costs[2]))

    def _make_list(self, node: MakeList) -> Steps[Node, Range]:
        cost = fixed(NEW_LIST)
        values = EMPTY if node.elements else NOTHING
        for element in node.elements:
            cost = cost.plus((yield element))
            values = values.union(self._size_or_unknown(element))
        self._entries[node.id] = _Entries(is_list=True, keys=ONE, values=values)
        return cost

    def _make_map(self, node: MakeMap) -> Steps[Node, Range]:
        cost = fixed(NEW_MAP)
        keys = values = EMPTY if node.entries else NOTHING
        for entry in node.entries:
            cost = cost.plus((yield entry.key)).plus((yield entry.value))
            keys = keys.union(self._size_or_unknown(entry.key))
            values = values.union(self._size_or_unknown(entry.value))
        self._entries[node.id] = _Entries(is_list=False, keys=keys, values=values)
        return cost

    def _make_message(self, node: MakeMessage) -> Steps[Node, Range]:
        cost = fixed(NEW_MESSAGE)
        for _, value in node.fields:
            cost = cost.plus((yield value))
        return cost

    def _bind_or_loop(self, node: Comprehension) -> Steps[Node, Range]:
        is_bind = node.macro in ("bind", "opt_map", "opt_flat_map") and node.accumulator != _LITERALLY_ACCUMULATING
        return self._bind(node) if is_bind else self._loop(node)

    def _bind(self, node: Comprehension) -> Steps[Node, Range]:
        cost = (yield node.range).plus((yield node.initial))
        self._declare(node.accumulator, node.initial)
        cost = cost.plus((yield node.result))
        self._variables[node.accumulator].pop()
        self._take_over_sizes(node, node.result)
        return cost

    def _loop(self, node: Comprehension) -> Steps[Node, Range]:
        cost = (yield node.range).plus((yield node.initial))
        self._declare(node.accumulator, node.initial)
        self._declare_loop_variables(node)
        turn = (yield node.condition).plus((yield node.step))
        self._variables[node.variable].pop()
        if node.second_variable:
            self._variables[node.second_variable].pop()
        cost = cost.plus((yield node.result))
        self._variables[node.accumulator].pop()
        turns = self._size_or_unknown(node.range)
        if isinstance(node.initial, Constantly):
            self._sizes[node.id] = self._size_or_unknown(node.initial)
        elif isinstance(node.initial, MakeList | MakeMap):
            self._sizes[node.id] = turns
            if (entries := self._entries_of(node.step)) is not None:
                self._entries[node.id] = entries
        return cost.plus(turns.times(turn))

    # --- Variables ----------------------------------------------------------------------------------------------------

    def _variable(self, name: str) -> _Variable | None:
        stack = self._variables.get(name)
        return stack[-1] if stack else None

    def _declare(self, name: str, value: Node) -> None:
        variable = _Variable(self._path(value), self._size(value), self._entries_of(value))
        self._variables[name].append(variable)

    def _declare_loop_variables(self, node: Comprehension) -> None:
        entries = self._entries_of(node.range)
        is_list = entries.is_list if entries else self._types[node.range.id].name == "list"
        if node.second_variable:
            self._variables[node.variable].append(self._key(node.range, entries, is_list=is_list))
            self._variables[node.second_variable].append(self._value(node.range, entries, is_list=is_list))
        elif is_list:
            self._variables[node.variable].append(self._value(node.range, entries, is_list=True))
        else:
            self._variables[node.variable].append(self._key(node.range, entries, is_list=False))

    def _key(self, container: Node, entries: _Entries | None, *, is_list: bool) -> _Variable:
        path = self._path(container).to("@indices" if is_list else "@keys")
        return _Variable(path, entries.keys if entries else None)

    def _value(self, container: Node, entries: _Entries | None, *, is_list: bool) -> _Variable:
        path = self._path(container).to("@items" if is_list else "@values")
        return _Variable(path, entries.values if entries else None)

    # --- Sizes --------------------------------------------------------------------------------------------------------

    def _operand(self, node: Node) -> Operand:
        path = self._path(node)
        if path.variable in (RESULT, _LITERALLY_ACCUMULATING):
            path = NOWHERE
        return Operand(node, self._types[node.id], path, self._size(node))

    def _path(self, node: Node) -> Path:
        if isinstance(node, Name) and (variable := self._variable(self._names[node.id])):
            return variable.path
        return self._paths.get(node.id, NOWHERE)

    def _size(self, node: Node) -> Range | None:
        if (size := self._sizes.get(node.id)) is not None:
            return size
        if (size := _literal_size(node)) is not None:
            return size
        path = self._path(node)
        if path is not NOWHERE and (size := size_at(path)) is not None:
            self._sizes[node.id] = size
            return size
        if _is_scalar(self._types[node.id]):
            return ONE
        if isinstance(node, Name) and (variable := self._variable(self._names[node.id])):
            return variable.size
        return None

    def _size_or_unknown(self, node: Node) -> Range:
        return self._size(node) or UNKNOWN

    def _entries_of(self, node: Node) -> _Entries | None:
        if (entries := self._entries.get(node.id)) is not None:
            return entries
        if isinstance(node, Name) and (variable := self._variable(self._names[node.id])):
            return variable.entries
        return None

    def _join_entries(self, node: Node, one: Node, other: Node) -> None:
        left, right = self._entries_of(one), self._entries_of(other)
        if left is not None and right is not None:
            self._entries[node.id] = left.union(right)

    def _take_over_sizes(self, node: Node, source: Node) -> None:
        if (size := self._size(source)) is not None:
            self._sizes[node.id] = size
        if (entries := self._entries_of(source)) is not None:
            self._entries[node.id] = entries


_ITEMS: Final = {"index_list": "@items", "index_map": "@values"}


def _literal_size(node: Node) -> Range | None:
    match node:
        case Constantly(value=str() | bytes() as text):
            return fixed(len(text))
        case Constantly():
            return ONE
        case MakeList():
            return fixed(len(node.elements))
        case MakeMap():
            return fixed(len(node.entries))
    return None


def _is_scalar(kind: Type) -> bool:
    if kind.name in ("optional_type", NULLABLE):
        return _is_scalar(kind.parameters[0])
    return kind in _SCALARS
