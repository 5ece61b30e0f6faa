"""Which type fits where, and what that tells about types yet to be found: unification, as cel-go does it."""

from collections.abc import Iterable, Sequence
from typing import Final

from gpusharing.cel.declarations.types import DYN, NULLABLE, Type, parameter

_ANYTHING: Final = frozenset({"dyn", "any", "!error!"})
_NEVER_NULL: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", "type"})


class Bindings:
    """What is known by now about types to be found. They are named by numbers."""

    __slots__ = ("_bound", "_count", "_undo")

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._undo: list[tuple[str, Type | None]] = []
        self._count = 0

    def new(self) -> Type:
        self._count += 1
        return parameter(str(self._count))

    def renamed(self, types: Sequence[Type]) -> list[Type]:
        """With new types to be found in the place of A, B and so on."""
        names: dict[str, Type] = {}
        return [self._renamed(each, names) for each in types]

    def _renamed(self, type_: Type, names: dict[str, Type]) -> Type:
        if not type_.is_open:
            return type_
        if type_.parameters:
            return Type(type_.name, tuple(self._renamed(each, names) for each in type_.parameters))
        if type_.name not in names:
            names[type_.name] = self.new()
        return names[type_.name]

    def fit(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Whether each fits. If so, what that says about types to be found is kept, otherwise nothing of it."""
        if len(given) != len(wanted):
            return False
        mark = len(self._undo)
        if all(map(self._fits, given, wanted)):
            return True
        while len(self._undo) > mark:
            name, before = self._undo.pop()
            if before is None:
                del self._bound[name]
            else:
                self._bound[name] = before
        return False

    def fits(self, given: Type, wanted: Type) -> bool:
        return self.fit((given,), (wanted,))

    def resolved(self, type_: Type) -> Type:
        """With what has been found in its place."""
        type_ = self._bound_to(type_)
        if not type_.parameters or not type_.is_open:
            return type_
        return Type(type_.name, tuple(map(self.resolved, type_.parameters)))

    def final(self, types: Iterable[Type]) -> list[Type]:
        """What has not been found is dyn."""
        # By their ids, since the types of neighbours are parts of each other.
        known: dict[int, Type] = {}

        def final(type_: Type) -> Type:
            if not type_.is_open:
                return type_
            found = known.get(id(type_))
            if found is None:
                bound = self._bound_to(type_)
                found = DYN if is_unknown(bound) else Type(bound.name, tuple(map(final, bound.parameters)))
                known[id(type_)] = found
            return found

        return [final(each) for each in types]

    def _bound_to(self, type_: Type) -> Type:
        while is_unknown(type_) and type_.name in self._bound:
            type_ = self._bound[type_.name]
        return type_

    def _fits(self, given: Type, wanted: Type) -> bool:
        if given is wanted:
            return True
        if is_unknown(wanted):
            fits, is_bound = self._can_be(wanted, given)
            if fits or is_bound:
                return fits
        if is_unknown(given):
            return self._can_be(given, wanted)[0]
        if given.name in _ANYTHING or wanted.name in _ANYTHING:
            return True
        if given.name == "null_type":
            return wanted.name not in _NEVER_NULL
        if wanted.name == "null_type":
            return given.name not in _NEVER_NULL
        given, wanted = without_null(given), without_null(wanted)
        if given.name != wanted.name:
            return False
        if given.name == "type":
            return True
        return len(given.parameters) == len(wanted.parameters) and all(
            map(self._fits, given.parameters, wanted.parameters)
        )

    def _can_be(self, unknown: Type, other: Type) -> tuple[bool, bool]:
        """Whether the unknown type can be the other one, and whether anything was known about it before."""
        if is_unknown(other) and other.name == unknown.name:
            return True, True
        bound = self._bound.get(unknown.name)
        if bound is None:
            if self._occurs(unknown, other):
                return False, False
            self._bind(unknown, other)
            return True, False
        if same(other, bound):
            return True, True
        if not self._fits(other, bound):
            return False, True
        general = most_general(other, bound)
        if not self._occurs(unknown, general):
            self._bind(unknown, general)
        return True, True

    def _bind(self, unknown: Type, type_: Type) -> None:
        self._undo.append((unknown.name, self._bound.get(unknown.name)))
        self._bound[unknown.name] = type_

    def _occurs(self, unknown: Type, within: Type) -> bool:
        while is_unknown(within):
            if within.name == unknown.name:
                return True
            bound = self._bound.get(within.name)
            if bound is None:
                return False
            within = bound
        return within.is_open and any(self._occurs(unknown, each) for each in within.parameters)


def most_general(left: Type, right: Type) -> Type:
    """Of two that fit each other."""
    return left if _says_no_more(left, right) else right


def same(left: Type, right: Type) -> bool:
    return left == right or without_null(left) == without_null(right)


def equivalent(left: Type, right: Type) -> bool:
    """Whether they differ at most in what may be null in them. Both are final."""
    left, right = without_null(left), without_null(right)
    return left is right or (
        left.name == right.name
        and len(left.parameters) == len(right.parameters)
        and all(map(equivalent, left.parameters, right.parameters))
    )


def without_null(type_: Type) -> Type:
    return type_.parameters[0] if type_.name == NULLABLE else type_


def _says_no_more(left: Type, right: Type) -> bool:
    """Whether everything that is known from the left one is known from the right one too."""
    if left.name in _UNSPECIFIC or is_unknown(left):
        return True
    if right.name in _UNSPECIFIC or is_unknown(right):
        return False
    left, right = without_null(left), without_null(right)
    if left.name != right.name:
        return False
    return left.name == "type" or (
        len(left.parameters) == len(right.parameters) and all(map(_says_no_more, left.parameters, right.parameters))
    )


_UNSPECIFIC: Final = frozenset({"dyn", "any"})


def is_unknown(type_: Type) -> bool:
    return type_.is_open and not type_.parameters
