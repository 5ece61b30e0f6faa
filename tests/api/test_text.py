"""Texts are as long as the API takes them, and say that they were longer."""

import pytest

from gpusharing.api.meta import Condition, ConditionStatus
from gpusharing.api.text import LONGEST_MESSAGE, clip


@pytest.mark.parametrize(
    ("text", "most", "clipped"),
    [("", 3, ""), ("abc", 3, "abc"), ("abcd", 3, "ab…"), ("😀😀😀😀", 3, "😀😀…"), ("ab", 1, "…")],
)
def test_clip(text: str, most: int, clipped: str) -> None:
    assert clip(text, most) == clipped


@pytest.mark.parametrize("length", [0, LONGEST_MESSAGE, LONGEST_MESSAGE + 1, 32_768, 10**6])
def test_no_message_is_too_long_for_a_condition(length: int) -> None:
    condition = Condition(
        type="Ready",
        status=ConditionStatus.TRUE,
        reason="Ready",
        message="é" * length,
        last_transition_time="2026-11-18T12:00:00Z",
    )
    assert len(condition.message) == min(length, LONGEST_MESSAGE)
    assert condition.message.endswith("…") == (length > LONGEST_MESSAGE)
