"""What is present, and what counts as absent."""

from typing import Any, Final

import pytest

from gpusharing.cel.runtime import optionals
from gpusharing.cel.values import semver
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import NONE
from gpusharing.cel.values.timestamps import Timestamp

VERSION: Final = semver.parse("1.2.3")


@pytest.mark.parametrize(
    ("value", "is_zero"),
    [
        (0, True), (1, False), (Uint(0), True), (0.0, True), ("", True), ("a", False), (b"", True), (False, True),
        (True, False), (None, True), ([], True), ([0], False), ({}, True), (Duration(0), True), (Timestamp(0), False),
        (Timestamp(-62_135_596_800), True), (VERSION, False), (NONE, False),
    ],
)  # fmt: skip
def test_zero_values_make_no_optional(value: Any, is_zero: bool) -> None:
    assert (optionals.of_non_zero(value) is NONE) is is_zero
