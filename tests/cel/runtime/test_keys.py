"""Keys of maps, of all types."""

from typing import Any

import pytest

from cel.values_at_random import QUANTITY
from gpusharing.cel.runtime.keys import key_of, value_of
from gpusharing.cel.runtime.lists import AttributeList
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.network import parse_ip
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import NONE, Optional
from gpusharing.cel.values.timestamps import Timestamp
from gpusharing.cel.values.type_values import TypeValue


@pytest.mark.parametrize(
    "value",
    ["a", 1, -1, Uint(1), True, False, 1.0, -0.5, None, Duration(5), Timestamp(5), parse_ip("::1"), [1], {"a": 1}, NONE,
     Optional(1), QUANTITY, TypeValue("int"), AttributeList([1])],
)  # fmt: skip
def test_keys_become_what_they_were(value: Any) -> None:
    assert value_of(key_of(value)) is value or value_of(key_of(value)) == value
    assert type(value_of(key_of(value))) is type(value)


@pytest.mark.parametrize("kind", [list, AttributeList])
def test_the_same_list_is_the_same_key_and_another_one_that_says_the_same_is_not(kind: type[list[int]]) -> None:
    mine = kind([1])
    assert key_of(mine) == key_of(mine)
    assert key_of(mine) != key_of(kind([1]))
