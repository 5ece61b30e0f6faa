"""What is declared twice is an error, whichever table it stands in: the earlier one would be lost without a word."""

import pytest

from gpusharing.cel.declarations import NEWEST_MINOR, OLDEST_MINOR, functions
from gpusharing.cel.declarations.tables import merged

SIZE = "size\n    size_string: (string) -> int"
TWICE = [
    pytest.param(
        [SIZE, "type\n    type: (A) -> type(A)", "size\n    size_list: (list(A)) -> int"], "size", id="tables"
    ),
    pytest.param([f"{SIZE}\ntype\n    type: (A) -> type(A)\n{SIZE}"], "size", id="one table"),
    pytest.param([f"{SIZE}\n    size_string: string.() -> int"], "size_string", id="overload of one function"),
    pytest.param([SIZE, "length\n    size_string: (string) -> int"], "size_string", id="overload of two functions"),
]


@pytest.mark.parametrize("minor", [OLDEST_MINOR, NEWEST_MINOR])
@pytest.mark.parametrize(("tables", "named"), TWICE)
def test_what_is_declared_twice_is_an_error_that_names_it(tables: list[str], named: str, minor: int) -> None:
    with pytest.raises(ValueError, match=rf"declared twice: {named}$"):
        functions(tables, minor)


def test_versions_may_declare_an_overload_in_turns() -> None:
    table = "indexOf\n    a (until 1.36): string.(string) -> int\n    b: list(A).(A) -> int\n"
    in_turns = table + "    a (since 1.37): string.(string) -> int"
    for minor in (36, 37):
        members = functions([in_turns], minor)["indexOf"].members
        assert sorted(overload.id for overload in members) == ["a", "b"]


def test_tables_are_read_as_one() -> None:
    assert merged({"a": 1}, {}, {"b": 2}) == {"a": 1, "b": 2}
