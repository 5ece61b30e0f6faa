"""Which function of ours a call means, and how to write the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from gpusharing.cel.cost.work import SEARCHING
from gpusharing.cel.declarations.overloads import Overload
from gpusharing.cel.declarations.types import BOOL, DYN, QUANTITY, STRING, Type, list_of
from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.generate import inline
from gpusharing.cel.generate.code import Code, joined
from gpusharing.cel.generate.signatures import signatures_of
from gpusharing.cel.runtime import equality, faults, regexes
from gpusharing.cel.runtime.dispatch import Candidate, dispatcher
from gpusharing.cel.runtime.overloads import BY_FUNCTION, implementations
from gpusharing.cel.tree import ADD, EQUALS, IN, NOT_EQUALS, Call
from gpusharing.cel.values.regex import Regex

if TYPE_CHECKING:
    from gpusharing.cel.generate.generator import Generator

_Writer = Callable[["Generator", Sequence[Code]], Code]

_BREAKING: Final = frozenset(("list_distinct", "list_flatten_int"))
_BREAKING_SUFFIXES: Final = ("_sort", "_sortByAssociatedKeys")
_UNTYPED: Final = frozenset((
    "starts_with_string", "ends_with_string", "contains_string", "list_flatten", "list_flatten_int",
))  # fmt: skip
"""Overloads that look at the types of their arguments themselves."""
_ANY_ITEM: Final = ("min", "max")
"""Functions whose result has the type of some item, of which only the first is sure to have the right one."""
_TEMPLATES: Final = {
    "starts_with_string": "{0}.startswith({1})",
    "ends_with_string": "{0}.endswith({1})",
    "contains_string": "{1} in {0}",
}
_NEVER_FAILING: Final = frozenset((
    "quantity_compare_to", "quantity_is_greater_than", "quantity_is_less_than", "quantity_sign", "quantity_get_float",
    "quantity_is_integer", "semver_compare_to", "semver_is_greater_than", "semver_is_less_than", "semver_major",
    "semver_minor", "semver_patch", "string_lower_ascii", "string_upper_ascii", "string_trim", "optional_of",
    "optional_none", "optional_ofNonZeroValue", "optional_hasValue", "list_first", "list_last", "int64_to_string",
    "uint64_to_string",
))  # fmt: skip
"""And in no time: what reads a text is none of them."""
_SLOW_OPERATORS: Final = frozenset((ADD, IN, EQUALS, NOT_EQUALS, "matches", "sort", "@sortByAssociatedKeys"))
_QUICK: Final = (
    "quantity_",
    "semver_",
    "duration_",
    "timestamp_",
    "optional_o",
    "optional_h",
    "optional_v",
    "ip_",
    "cidr_",
)
_QUICK_CONVERSIONS: Final = (
    "_to_int64",
    "_to_uint64",
    "_to_double",
    "_to_bool",
    "_to_timestamp",
    "_to_duration",
    "64_to_string",
)
_PRECOMPUTED: Final = frozenset((
    "string_to_quantity", "string_to_semver", "string_bool_to_semver", "string_to_ip", "string_to_cidr",
))  # fmt: skip
"""Overloads whose result for constants is computed beforehand, though not by Kubernetes."""


class Function:
    """`function` does all that is to do at run time; `code` may be a shorter way. `breaks_unpaid`: in Kubernetes it is
    its price that breaks down if an argument failed or has the wrong type."""

    regex: Regex | None = None
    """Of a function that searches, if it is known before."""

    def __init__(self, name: str, function: Callable[..., Any], *, breaks_unpaid: bool = False) -> None:
        self.name = name
        self.function = function
        self.breaks_unpaid = breaks_unpaid
        self.is_quick = False

    def code(self, g: Generator, codes: Sequence[Code]) -> Code:
        text = f"{g.refer(self.function)}({', '.join(code.text for code in codes)})"
        return Code(text, self.type_for(codes), fails=True, breaks=any(code.breaks for code in codes))

    def measured(self, g: Generator, codes: Sequence[Code]) -> Code:
        """The same where time is counted: unless it always takes about as long as the call itself."""
        code = self.code(g, codes)
        if self.is_quick or not code.fails:
            return code
        arguments = "".join(f", {code.text}" for code in codes)
        method = "sort" if "sort" in self.name.lower() else "run"
        return code._replace(text=f"m.{method}({self.counted(g, codes)}{arguments})", fails=True)

    def counted(self, g: Generator, codes: Sequence[Code]) -> str:
        """The name of the function, which counts itself what the sizes of its arguments do not tell."""
        name = g.refer(self.for_types(codes))
        if g.is_metered and self.name in SEARCHING:
            return f"m.searching({name}, {g.refer(self.regex)})"
        return name

    def for_types(self, _codes: Sequence[Code]) -> Callable[..., Any]:
        """The same without tests of types that are sure."""
        return self.function

    def type_for(self, codes: Sequence[Code]) -> Type:
        raise NotImplementedError


def resolve(g: Generator, node: Call) -> Function:
    return _resolve(node.function, g.overloads[node.id], g.minor)


@cache
def _resolve(function: str, overloads: tuple[str, ...], minor: int) -> Function:
    if function in _EQUALITY:
        return _Operator(function, _EQUALITY[function])
    if function in BY_FUNCTION:
        breaks = len(overloads) == 1 and overloads[0].endswith(_BREAKING_SUFFIXES)
        return _Operator(function, BY_FUNCTION[function], breaks_unpaid=breaks)
    signatures = signatures_of(function, minor)
    if len(overloads) == 1:
        return _Overload(function, signatures[overloads[0]], implementations(minor)[overloads[0]])
    return _Ambiguous(function, overloads, signatures, implementations(minor))


_EQUALITY: Final = {EQUALS: equality.equal, NOT_EQUALS: equality.unequal}


class _Operator(Function):
    """A function that looks at the types of its arguments itself."""

    def __init__(self, name: str, function: Callable[..., Any], *, breaks_unpaid: bool = False) -> None:
        super().__init__(name, function, breaks_unpaid=breaks_unpaid)
        self.is_quick = name not in _SLOW_OPERATORS
        self._write: _Writer = inline.OPERATORS.get(name, super().code)

    def code(self, g: Generator, codes: Sequence[Code]) -> Code:
        return self._write(g, codes)

    def type_for(self, codes: Sequence[Code]) -> Type:
        if self.name == ADD:
            return inline.type_of_result(codes)
        return list_of(DYN) if "sort" in self.name.lower() else BOOL


class _Overload(Function):
    """The only one that fits. Arguments whose types are not sure are tested."""

    def __init__(self, name: str, signature: Overload, implementation: Callable[..., Any]) -> None:
        self._id = signature.id
        is_quick = self._id.startswith(_QUICK) or self._id.endswith(_QUICK_CONVERSIONS)
        self._parameters = signature.parameters
        is_untyped = self._id in _UNTYPED
        candidate = Candidate(self._parameters, implementation)
        super().__init__(
            name,
            implementation if is_untyped else dispatcher(name, [candidate]),
            breaks_unpaid=self._id in _BREAKING,
        )
        self.is_quick = is_quick
        self._implementation = implementation
        self._is_tested = not is_untyped
        self._type = DYN if name in _ANY_ITEM else _sure(signature.result)

    def code(self, g: Generator, codes: Sequence[Code]) -> Code:
        if self._id in _PRECOMPUTED and all(code.is_constant for code in codes):
            return self._computed(g, codes)
        if self._id in _TEMPLATES:
            return inline.of_texts(g, _TEMPLATES[self._id], codes)
        return self._tested(g, codes) if self._is_tested else super().code(g, codes)

    def type_for(self, _codes: Sequence[Code]) -> Type:
        return self._type

    def for_types(self, codes: Sequence[Code]) -> Callable[..., Any]:
        is_sure = all(_accepts(parameter, code.type) for parameter, code in zip(self._parameters, codes, strict=True))
        return self._implementation if is_sure else self.function

    def _computed(self, g: Generator, codes: Sequence[Code]) -> Code:
        try:
            # Not the implementation, since what is dynamic to the checker may have any type.
            value = self.function(*(code.constant for code in codes))
        except EvaluationError:
            return super().code(g, codes)
        copied = ".copy()" if g.sees_forms_of_quantities and self._type == QUANTITY else ""
        return Code(f"{g.refer(value)}{copied}", self._type)

    def _tested(self, g: Generator, codes: Sequence[Code]) -> Code:
        tests, arguments = [], []
        for parameter, code in zip(self._parameters, codes, strict=True):
            if _accepts(parameter, code.type):
                arguments.append(code.text)
            elif parameter in inline.CLASSES and not code.breaks:
                test, name = inline.test(g, code, parameter)
                tests.append(test)
                arguments.append(name)
            else:
                return super().code(g, codes)
        text = f"{g.refer(self._implementation)}({', '.join(arguments)})"
        fails = bool(tests) or self._id not in _NEVER_FAILING or any(code.fails for code in codes)
        if tests:
            text = f"({text} if {' and '.join(tests)} else {g.refer(faults.no_such_overload)}())"
        return Code(text, self._type, fails, any(code.breaks for code in codes))


class _Ambiguous(Function):
    """Several fit: what their arguments are decides, among all of the function's overloads."""

    def __init__(
        self,
        name: str,
        overloads: tuple[str, ...],
        signatures: Mapping[str, Overload],
        implementations: Mapping[str, Callable[..., Any]],
    ) -> None:
        candidates = [
            Candidate(signature.parameters, implementations[signature.id]) for signature in signatures.values()
        ]
        super().__init__(name, dispatcher(name, candidates))
        results = [_sure(signatures[overload].result) for overload in overloads]
        self._type = joined(results) if name not in _ANY_ITEM else DYN

    def type_for(self, _codes: Sequence[Code]) -> Type:
        return self._type


class Pattern(Function):
    """`matches`, `find` or `findAll` with a constant pattern, which is read once."""

    def __init__(self, function: str, regex: Regex, general: Function) -> None:
        self._with_pattern = regexes.with_constant_pattern(function, regex)
        self.regex = regex
        self._matches = regex.matches
        self._type = general.type_for(())
        self._is_match = function == "matches"
        super().__init__(function, self._without_pattern)

    def _without_pattern(self, text: Any, _pattern: str, *limit: Any) -> Any:
        return self._with_pattern(text, *limit)

    def code(self, g: Generator, codes: Sequence[Code]) -> Code:
        subject, _, *limit = codes
        if not self._is_match:
            text = f"{g.refer(self._with_pattern)}({', '.join(code.text for code in (subject, *limit))})"
            return Code(text, self._type, fails=True, breaks=any(code.breaks for code in codes))
        matches = g.refer(self._matches)
        if subject.type == STRING:
            return Code(f"{matches}({subject.text})", BOOL, subject.fails, subject.breaks)
        test, name = inline.test(g, subject, STRING)
        text = f"({matches}({name}) if {test} else {g.refer(self._with_pattern)}({name}))"
        return Code(text, BOOL, fails=True, breaks=subject.breaks)

    def type_for(self, _codes: Sequence[Code]) -> Type:
        return self._type


def _sure(result: Type) -> Type:
    """What is sure of a result that is declared so."""
    if result.name.startswith("@") or result.name == "any":
        return DYN
    return Type(result.name, tuple(_sure(parameter) for parameter in result.parameters))


def _accepts(parameter: Type, kind: Type) -> bool:
    """Whether all values of the type are accepted."""
    if parameter == DYN or parameter.name.startswith("@"):
        return True
    if parameter.name != kind.name:
        return False
    return all(map(_accepts, parameter.parameters, kind.parameters))
