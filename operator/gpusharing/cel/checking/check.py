"""The types of all parts of an expression, as cel-go's checker finds them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from gpusharing.cel.checking import complaints
from gpusharing.cel.checking.assignment import Bindings, is_unknown, most_general
from gpusharing.cel.checking.checked import Checked
from gpusharing.cel.checking.complaints import OTHER_LIBRARIES
from gpusharing.cel.checking.resolution import resolve
from gpusharing.cel.checking.validate import validate
from gpusharing.cel.declarations import Declarations, declarations
from gpusharing.cel.declarations.messages import WITH_FIELDS
from gpusharing.cel.declarations.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
)
from gpusharing.cel.errors import CompileError
from gpusharing.cel.tree import (
    AND,
    INDEX,
    OPTIONAL_INDEX,
    OPTIONAL_SELECT,
    OR,
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
from gpusharing.cel.values.numbers import Uint

_CONSTANTS: Final[Mapping[type, Type]] = {
    bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL,
}  # fmt: skip
_LARGEST_TYPE: Final = 300
_VARIABLES_HIDE_NAMESPACES_SINCE: Final = 37
_ANYTHING: Final = frozenset({"dyn", "any", "!error!"})
_RANGES: Final = frozenset({"dyn", "!error!"})


def check(root: Node, expression: str, minor: int) -> Checked:
    checker = _Checker(expression, declarations(minor))
    try:
        walk(checker.visit, root)
        checker.raise_first_error()
        checked = checker.checked(root)
        validate(checked, checker.to_validate, checker.formatted)
    except RecursionError:
        # Types nest, and one compares them by recursion. Nobody has seen a list of lists of lists of lists.
        raise CompileError("lists or maps nested too deeply", expression) from None
    return checked


Checking: TypeAlias = Steps[Node, Type]


class _Checker:
    def __init__(self, expression: str, declared: Declarations) -> None:
        self._expression = expression
        self._declared = declared
        self._bindings = Bindings()
        self._scopes: list[dict[str, Type]] = []
        self._types: dict[int, Type] = {}
        self._overloads: dict[int, tuple[str, ...]] = {}
        self._names: dict[int, str] = {}
        self._first_error: CompileError | None = None
        self._open_formats = 0
        self.to_validate: list[Node] = []
        self.formatted: set[int] = set()
        """Ids of what is within a call of format()."""

    def visit(self, node: Node) -> Checking | Type:
        return self._VISITS[type(node)](self, node)

    def checked(self, root: Node) -> Checked:
        types = self._types
        still_open = {id_: type_ for id_, type_ in types.items() if type_.is_open}
        types.update(zip(still_open, self._bindings.final(still_open.values()), strict=True))
        minor = self._declared.minor
        return Checked(self._expression, minor, root, types, self._overloads, self._names)

    def raise_first_error(self) -> None:
        if self._first_error is not None:
            raise self._first_error

    def _error(self, node: Node, complaint: Callable[..., str], *about: Any) -> Type:
        """The first in the text counts, which need not be the first that is found."""
        if self._first_error is None or node.at < self._first_error.offset:
            self._first_error = CompileError(complaint(*about), self._expression, node.at)
        return ERROR

    def _is(self, node: Node, type_: Type) -> Type:
        if type_.size > _LARGEST_TYPE:
            raise CompileError("the type of this is too long to be written out", self._expression, node.at)
        self._types[node.id] = type_
        return type_

    def _resolved(self, type_: Type) -> Type:
        return self._bindings.resolved(type_) if type_.is_open else type_

    # --- Names --------------------------------------------------------------------------------------------------------

    def _constant(self, node: Constantly) -> Type:
        return self._is(node, _CONSTANTS[type(node.value)])

    def _name(self, node: Name) -> Type:
        return self._is(node, self._named(node, node.name) or self._error(node, self._unknown, node.name))

    def _unknown(self, name: str) -> str:
        known = [each for scope in (self._declared.names, *self._scopes) for each in scope]
        return complaints.unknown_name(name, known)

    def _named(self, node: Name | Select, name: str) -> Type | None:
        """The type of what has that name; None if nothing has."""
        plain = name.removeprefix(".")
        local = self._local(plain)
        hides = self._declared.minor >= _VARIABLES_HIDE_NAMESPACES_SINCE
        if local is not None and (plain is name or not hides):
            self._names[node.id] = plain
            self._validate_if_type(node, local)
            return local
        type_ = self._declared.names.get(plain)
        if type_ is not None:
            # The dot tells it from a variable of the same name.
            self._names[node.id] = plain if local is None else f".{plain}"
            self._validate_if_type(node, type_)
        return type_

    def _validate_if_type(self, node: Node, type_: Type) -> None:
        if type_.name == "type" or is_unknown(type_):
            self.to_validate.append(node)

    def _local(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _qualified(self, node: Select) -> Type | None:
        """The type of what has the whole of a.b.c as its name."""
        fields: list[str] = []
        part: Node = node
        while isinstance(part, Select) and not part.test:
            fields.append(part.field)
            part = part.operand
        if not isinstance(part, Name):
            return None
        if self._declared.minor >= _VARIABLES_HIDE_NAMESPACES_SINCE and self._local(part.name) is not None:
            return None
        return self._named(node, ".".join([part.name, *reversed(fields)]))

    # --- Fields -------------------------------------------------------------------------------------------------------

    def _select(self, node: Select) -> Checking:
        if not node.test:
            type_ = self._qualified(node)
            if type_ is not None:
                return self._is(node, type_)
        operand = yield node.operand
        type_ = self._field(node, operand, node.field)
        return self._is(node, BOOL if node.test else self._resolved(type_))

    def _optional_select(self, node: Call) -> Checking:
        operand, field = node.arguments
        if not isinstance(field, Constantly) or not isinstance(field.value, str):
            raise TypeError(field)
        type_ = self._field(node, (yield operand), field.value, is_optional=True)
        self._is(field, STRING)
        self._overloads[node.id] = ("select_optional_field",)
        return self._is(node, self._resolved(type_))

    def _field(self, node: Node, operand: Type, field: str, *, is_optional: bool = False) -> Type:
        operand = self._resolved(operand)
        if operand.name == "optional_type":
            return optional_of(self._field_of_value(node, operand.parameters[0], field))
        type_ = self._field_of_value(node, operand, field)
        return optional_of(type_) if is_optional else type_

    def _field_of_value(self, node: Node, value: Type, field: str) -> Type:
        if value.name == "map":
            return value.parameters[1]
        if value.name in WITH_FIELDS:
            fields = self._declared.fields[value.name]
            return fields.get(field) or self._error(node, complaints.unknown_field, value, field, fields)
        if is_unknown(value):
            # It may become anything.
            self._bindings.fits(DYN, value)
        elif value.name not in _ANYTHING:
            self._error(node, complaints.no_fields, value, field)
        return DYN

    # --- Calls --------------------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> Checking:
        if node.function == OPTIONAL_SELECT:
            return (yield from self._optional_select(node))
        if self._is_of_other_library(node):
            return self._is(node, self._error(node, complaints.other_library, node))
        is_format = node.function == "format"
        self._open_formats += is_format
        given = []
        for argument in node.arguments:
            given.append((yield argument))  # noqa: PERF401 (a comprehension cannot yield)
        if node.target is not None:
            given.insert(0, (yield node.target))
        self._open_formats -= is_format
        if is_format or node.function in (INDEX, OPTIONAL_INDEX):
            self.to_validate.append(node)
        if node.function in (AND, OR):
            return self._is(node, self._logic(node, given))
        return self._is(node, self._called(node, given))

    def _is_of_other_library(self, node: Call) -> bool:
        target = node.target
        return isinstance(target, Name) and target.name in OTHER_LIBRARIES and self._local(target.name) is None

    def _logic(self, node: Call, given: Sequence[Type]) -> Type:
        wrong = False
        for argument, type_ in zip(node.arguments, given, strict=True):
            if not self._bindings.fits(type_, BOOL):
                wrong = True
                self._error(argument, complaints.no_condition, node, self._finally(type_))
        self._overloads[node.id] = ("logical_and" if node.function == AND else "logical_or",)
        return ERROR if wrong else BOOL

    def _called(self, node: Call, given: Sequence[Type]) -> Type:
        function = self._declared.functions.get(node.function)
        if function is None:
            return self._error(node, complaints.unknown_function, node, self._declared)
        found = resolve(
            node.function, self._declared.minor, tuple(given), self._bindings, is_member=node.target is not None
        )
        if found is None:
            types = [self._finally(type_) for type_ in given]
            return self._error(node, complaints.no_overload, node, types, function)
        self._overloads[node.id] = found.overloads
        return found.result

    def _finally(self, type_: Type) -> Type:
        (final,) = self._bindings.final([type_])
        return final

    # --- Lists, maps, messages ----------------------------------------------------------------------------------------

    def _list(self, node: MakeList) -> Checking:
        joined: Type | None = None
        for position, element in enumerate(node.elements):
            type_ = yield element
            if position in node.optional:
                type_ = self._unwrapped(element, type_)
            joined = self._joined(joined, type_)
        self._validate(node)
        return self._is(node, list_of(joined or self._bindings.new()))

    def _map(self, node: MakeMap) -> Checking:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            keys = self._joined(keys, (yield entry.key))
            value = yield entry.value
            if entry.optional:
                value = self._unwrapped(entry.value, value)
            values = self._joined(values, value)
        self._validate(node)
        return self._is(node, map_of(keys or self._bindings.new(), values or self._bindings.new()))

    def _validate(self, node: Node) -> None:
        self.to_validate.append(node)
        if self._open_formats:
            self.formatted.add(node.id)

    def _joined(self, previous: Type | None, next_: Type) -> Type:
        if previous is None:
            return next_
        return most_general(previous, next_) if self._bindings.fits(previous, next_) else DYN

    def _unwrapped(self, node: Node, type_: Type) -> Type:
        if type_.name == "optional_type":
            return type_.parameters[0]
        if type_.name not in _UNSPECIFIC:
            self._error(node, complaints.no_optional, type_)
        return type_

    def _message(self, node: MakeMessage) -> Checking:
        name = node.type_name.removeprefix(".")
        type_ = self._message_type(node, name)
        self._is(node, type_)
        fields = self._declared.fields.get(name, {})
        for position, (field, value) in enumerate(node.fields):
            given = yield value
            if type_ is ERROR:
                continue
            if position in node.optional:
                given = self._unwrapped(value, given)
            wanted = fields.get(field)
            if wanted is None:
                self._error(node, complaints.unknown_field, type_, field, fields)
            elif not self._bindings.fits(wanted, given):
                self._error(value, complaints.wrong_field, field, wanted, self._finally(given))
        return type_

    def _message_type(self, node: MakeMessage, name: str) -> Type:
        is_hidden = self._declared.minor < _VARIABLES_HIDE_NAMESPACES_SINCE and self._local(name) is not None
        type_of_name = self._declared.names.get(name)
        if type_of_name is None or is_hidden:
            return self._error(node, self._unknown, name)
        if name not in self._declared.fields:
            return self._error(node, complaints.no_message, name)
        self._names[node.id] = name
        return type_of_name.parameters[0]

    # --- Macros -------------------------------------------------------------------------------------------------------

    def _comprehension(self, node: Comprehension) -> Checking:
        range_ = yield node.range
        accumulated = yield node.initial
        self._scopes.append({node.accumulator: accumulated})
        self._scopes.append(self._loop_variables(node, self._resolved(range_)))
        condition = yield node.condition
        self._expect(node.condition, condition, BOOL)
        step = yield node.step
        self._expect(node.step, step, accumulated)
        self._scopes.pop()
        result = yield node.result
        self._scopes.pop()
        return self._is(node, self._resolved(result))

    def _loop_variables(self, node: Comprehension, range_: Type) -> dict[str, Type]:
        first = second = ERROR
        if range_.name == "list":
            first, second = INT, range_.parameters[0]
            if not node.second_variable:
                first = second
        elif range_.name == "map":
            first, second = range_.parameters
        elif is_unknown(range_) or range_.name in _RANGES:
            self._bindings.fits(DYN, range_)
            first = second = DYN
        else:
            self._error(node.range, complaints.no_range, node, range_)
        variables = {node.variable: first}
        if node.second_variable:
            variables[node.second_variable] = second
        return variables

    def _expect(self, node: Node, type_: Type, wanted: Type) -> None:
        if not self._bindings.fits(wanted, type_):
            self._error(node, complaints.wrong_type, self._finally(wanted), self._finally(type_))

    _VISITS: Final[Mapping[type[Node], Callable[[Any, Any], Checking | Type]]] = {
        Constantly: _constant,
        Name: _name,
        Select: _select,
        Call: _call,
        MakeList: _list,
        MakeMap: _map,
        MakeMessage: _message,
        Comprehension: _comprehension,
    }


_UNSPECIFIC: Final = frozenset({"dyn", "any"})
