"""Tables are read as they are written."""

import pytest

from gpusharing.cel.declarations.overloads import overloads
from gpusharing.cel.declarations.types import DURATION, INT, STRING, list_of, map_of, parameter

TABLE = """
charAt
    string_char_at_int: string.(int) -> string
pick
    pick_one (since 1.36): (map(K, list(duration)), K) -> list(duration)
    pick_none (only 1.35): () -> K
old
    old_one (until 1.35): (int) -> int
"""


def test_a_signature_is_read() -> None:
    (char_at,) = overloads(TABLE, 37)["charAt"]
    assert (char_at.id, char_at.is_member, char_at.is_open) == ("string_char_at_int", True, False)
    assert (char_at.parameters, char_at.result) == ((STRING, INT), STRING)
    (pick,) = overloads(TABLE, 37)["pick"]
    key, durations = parameter("K"), list_of(DURATION)
    assert (pick.is_member, pick.is_open) == (False, True)
    assert (pick.parameters, pick.result) == ((map_of(key, durations), key), durations)


@pytest.mark.parametrize(
    ("minor", "ids"),
    [(34, ["old_one"]), (35, ["pick_none", "old_one"]), (36, ["pick_one"]), (37, ["pick_one"])],
)
def test_a_version_has_what_it_has(minor: int, ids: list[str]) -> None:
    found = overloads(TABLE, minor)
    assert [overload.id for of_function in found.values() for overload in of_function] == ["string_char_at_int", *ids]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("    size_string: (string) -> int", "of no function"),
        ("size\n    size_string: (string) > int", "neither a function nor an overload:     size_string"),
        ("size\n    size_string (after 1.36): (string) -> int", "neither a function nor an overload"),
        ("size\n  size_string: (string) -> int", "neither a function nor an overload"),
        ("size\n\ntype", "neither a function nor an overload"),
    ],
)
def test_what_cannot_be_read_is_an_error_instead_of_lost(table: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        overloads(table, 37)
