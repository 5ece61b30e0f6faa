"""Whatever is in an expression or on a device, what people get to read is short, and says where it is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing import cel

HUGE = 'device.attributes["d"]["aaaaaaaaaaaa".replace("a", "{}")]'.format("b" * 1_000)


def test_the_message_of_an_evaluation_is_bounded() -> None:
    with pytest.raises(cel.EvaluationError) as failed:
        cel.compile(HUGE, 37).match(cel.Device("d", {}, {}))
    assert failed.value.message.startswith("no such key: bbb")
    assert len(str(failed.value)) == 256
    assert failed.value.message.endswith("...")


def test_the_message_of_a_device_is_bounded() -> None:
    with pytest.raises(cel.EvaluationError) as failed:
        cel.compile("true", 37).match(cel.Device("d", {"version": {"version": "x" * 50_000}}, {}))
    assert len(str(failed.value)) <= 256


@given(st.text(max_size=3_000), st.integers(0, 3_000), st.text(max_size=3_000))
def test_a_refusal_is_bounded_also_when_it_is_explained(message: str, offset: int, expression: str) -> None:
    error = cel.CompileError(message * 3, expression, min(offset, len(expression)))
    assert len(error.explained()) <= 1_000


def test_a_short_message_is_left_as_it_is() -> None:
    for length in (0, 1, 256):
        assert cel.EvaluationError("x" * length).message == "x" * length
    assert cel.CompileError("no", "a\nb", 2).explained() == "line 2, column 1: no\nb\n^"
