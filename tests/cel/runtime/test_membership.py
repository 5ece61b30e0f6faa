"""Constant lists as sets."""

from typing import Any

import pytest

from cel.values_at_random import LARGEST, NAN, QUANTITY
from gpusharing.cel.runtime import membership
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import Optional


@pytest.mark.parametrize(
    ("constants", "members", "others"),
    [
        ([1, 2], [1, Uint(2), 2.0], [3, "1", True, 1.5, None, [1]]),
        ([1.5, 2.0], [1.5, 2, Uint(2), 2.0], [1, "2.0", NAN]),
        ([Uint(2**63)], [Uint(2**63), float(2**63)], [LARGEST]),
        (["a", "b"], ["a"], [1, "c", QUANTITY, Optional("a")]),
        ([True], [True], [1, False, "true"]),
        ([2**53 + 1], [2.0**53, 2**53 + 1], [2**53]),
    ],
)
def test_constants_as_a_set(constants: list[Any], members: list[Any], others: list[Any]) -> None:
    as_set = membership.members(constants)
    assert as_set is not None
    assert all(membership.is_member(member, as_set) for member in members)
    assert not any(membership.is_member(other, as_set) for other in others)


def test_not_all_constants_make_a_set() -> None:
    assert membership.members([b"a"]) is None
    assert membership.members([[1]]) is None
    assert membership.members([None]) is None
