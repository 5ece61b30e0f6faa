"""Which attributes and capacities an expression reads: nothing else of a device can change its answer.

A part of an expression is the device, a map of domains, one domain, or an ordinary value. What is selected from a
domain is read. Whatever else is done with the first three (compared, counted, walked over, asked for a key that is
computed) may read everything.
"""

from typing import Final, TypeAlias

from gpusharing.cel.checking.checked import Checked
from gpusharing.cel.tree import (
    IN,
    INDEX,
    OPTIONAL_INDEX,
    OPTIONAL_SELECT,
    Call,
    Comprehension,
    Constantly,
    Name,
    Node,
    Select,
    parts,
)
from gpusharing.cel.tree.walking import Steps, walk

QualifiedName: TypeAlias = tuple[str, str]
"""Domain and name, of an attribute and of the capacity of that name."""

_Path: TypeAlias = tuple[str, ...]
"""From the device to a part of it: () is the device, ("attributes",) a map of domains, with one more name a domain.
What is longer is an ordinary value."""

_DEVICE: Final = ()
_VALUE: Final = ("", "", "")
_Reading: TypeAlias = Steps[Node, _Path]


def reads(checked: Checked) -> frozenset[QualifiedName] | None:
    """None if that is not known before the evaluation. `device.driver` and the like are not counted."""
    reader = _Reader(checked)
    try:
        reader.expect_value(walk(reader.visit, checked.root))
    except _UnknownError:
        return None
    return frozenset(reader.found)


class _UnknownError(Exception):
    pass


class _Reader:
    def __init__(self, checked: Checked) -> None:
        self._names = checked.names
        self._scopes: list[dict[str, _Path]] = []
        self.found: set[QualifiedName] = set()

    def expect_value(self, path: _Path) -> None:
        if len(path) < len(_VALUE):
            raise _UnknownError

    def visit(self, node: Node) -> _Reading | _Path:
        match node:
            case Name():
                return self._name(self._names[node.id])
            case Select() if node.id in self._names:
                return self._name(self._names[node.id])
            case Select(operand=operand, field=field, test=test):
                return self._field(operand, field, is_test=test)
            case Call(function=function, arguments=(operand, Constantly(value=str() as key))) if function in _LOOKUPS:
                return self._lookup(operand, key, by_index=function != OPTIONAL_SELECT)
            case Call(function=function, arguments=(Constantly(value=str() as key), container)) if function == IN:
                return self._membership(container, key)
            case Comprehension(macro="bind"):
                return self._binding(node)
            case Comprehension():
                return self._loop(node)
        return self._value_of(node)

    def _name(self, name: str) -> _Path:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        # A dot before it tells it from a variable of the same name.
        return _DEVICE if name.removeprefix(".") == "device" else _VALUE

    def _field(self, operand: Node, field: str, *, is_test: bool) -> _Reading:
        path = yield operand
        if is_test and path == _DEVICE:
            return _VALUE
        found = self._part_of(path, field)
        if is_test:
            # Nothing is known here of which domains there are.
            self.expect_value(found)
        return found

    def _lookup(self, operand: Node, key: str, *, by_index: bool) -> _Reading:
        path = yield operand
        if by_index and path == _DEVICE:
            raise _UnknownError
        return self._part_of(path, key)

    def _membership(self, container: Node, key: str) -> _Reading:
        path = yield container
        self.expect_value(self._part_of(path, key))
        return _VALUE

    def _part_of(self, path: _Path, key: str) -> _Path:
        match path:
            case ():
                return (key,) if key in ("attributes", "capacity") else _VALUE
            case (_,):
                return (*path, key)
            case (_, domain):
                self.found.add((domain, key))
        return _VALUE

    def _binding(self, node: Comprehension) -> _Reading:
        self._scopes.append({node.accumulator: (yield node.initial)})
        result = yield node.result
        self._scopes.pop()
        return result

    def _loop(self, node: Comprehension) -> _Reading:
        for part in (node.range, node.initial):
            self.expect_value((yield part))
        variables = (node.accumulator, node.variable, node.second_variable)
        self._scopes.append(dict.fromkeys(variables, _VALUE))
        for part in (node.condition, node.step, node.result):
            self.expect_value((yield part))
        self._scopes.pop()
        return _VALUE

    def _value_of(self, node: Node) -> _Reading:
        for part in parts(node):
            self.expect_value((yield part))
        return _VALUE


_LOOKUPS = frozenset({INDEX, OPTIONAL_INDEX, OPTIONAL_SELECT})
