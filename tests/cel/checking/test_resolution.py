"""Which overloads of a function a call may mean, and what that makes of its result."""

import pytest

from cel.checked_texts import ATTRIBUTE, NEWEST, checked
from gpusharing.cel.checking.assignment import Bindings
from gpusharing.cel.checking.resolution import Resolution, resolve
from gpusharing.cel.declarations.types import BOOL, DURATION, INT, QUANTITY, STRING, Type
from gpusharing.cel.tree import Call

OVERLOADS = [
    ("1 < 2", ("less_int64",)),
    ("1 < 2.0", ("less_int64_double",)),
    ("dyn(1) < 2.0", ("less_int64_double", "less_uint64_double", "less_double")),
    ("'a' in ['a']", ("in_list",)),
    ("'a' in dyn(1)", ("in_list", "in_map")),
    ("true && true", ("logical_and",)),
    (f"{ATTRIBUTE}.?a == optional.none()", ("equals",)),
    (f"{ATTRIBUTE}.isGreaterThan({ATTRIBUTE})", ("quantity_is_greater_than", "semver_is_greater_than")),
    ("matches('a', 'b')", ("matches",)),
    ("'a'.matches('b')", ("matches_string",)),
    ("ip.isCanonical('1.2.3.4')", ("ip_is_canonical",)),
    (f"{ATTRIBUTE}.includes(1)", ("list_includes_dyn_dyn",)),
]


@pytest.mark.parametrize(("text", "overloads"), OVERLOADS)
def test_all_overloads_that_fit_are_found(text: str, overloads: tuple[str, ...]) -> None:
    found = checked(text)
    assert found.overloads[found.root.id] == overloads


def test_two_results_make_an_unknown_one() -> None:
    found = checked("[dyn(1) + 1] == [dyn(1) + dyn(2)]")
    assert isinstance(found.root, Call)
    assert [str(found.types[side.id]) for side in found.root.arguments] == ["list(int)", "list(dyn)"]


def resolved(function: str, *given: Type, is_member: bool = False, minor: int = NEWEST) -> Resolution | None:
    return resolve(function, minor, given, Bindings(), is_member=is_member)


def test_members_and_functions_are_apart() -> None:
    assert resolved("matches", STRING, STRING) == Resolution(("matches",), BOOL)
    assert resolved("matches", STRING, STRING, is_member=True) == Resolution(("matches_string",), BOOL)
    assert resolved("sign", QUANTITY, is_member=True) is None


def test_what_no_overload_takes_is_resolved_to_nothing() -> None:
    assert resolved("size", INT) is None
    assert resolved("size", STRING, STRING) is None


def test_what_a_call_says_of_an_unknown_type_is_kept() -> None:
    bindings = Bindings()
    unknown = bindings.new()
    assert resolve("startsWith", NEWEST, (STRING, unknown), bindings, is_member=True) is not None
    assert bindings.final([unknown]) == [STRING]


def test_answers_are_not_shared_between_versions() -> None:
    assert resolved("duration", INT, minor=36) == Resolution(("int64_to_duration",), DURATION)
    assert resolved("duration", INT, minor=37) is None
