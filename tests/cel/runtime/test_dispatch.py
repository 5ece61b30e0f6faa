"""Which overload takes a value."""

from typing import Any

import pytest

from gpusharing.cel.declarations.types import BOOL, DYN, INT, STRING, list_of, map_of, optional_of, parameter
from gpusharing.cel.runtime.dispatch import accepts
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import Optional


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (INT, 1, True), (INT, Uint(1), False), (INT, True, False), (BOOL, 1, False), (DYN, object(), True),
        (parameter("A"), None, True), (list_of(INT), [], True), (list_of(INT), [1, "a"], True),
        (list_of(INT), ["a", 1], False), (list_of(parameter("A")), ["a"], True), (list_of(INT), "ab", False),
        (map_of(STRING, INT), {}, True), (map_of(STRING, INT), {"a": 1}, True),
        (map_of(STRING, INT), {"a": "b"}, False), (map_of(INT, INT), {"a": 1}, False),
        (optional_of(INT), Optional("a"), True), (optional_of(INT), 1, False),
    ],
)  # fmt: skip
def test_of_a_list_only_the_first_item_is_looked_at(kind: Any, value: Any, expected: bool) -> None:
    assert accepts(kind, value) is expected
