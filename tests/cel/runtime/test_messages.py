"""Messages are values of other types."""

from typing import Any

import pytest

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime import messages
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import NONE, Optional


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("Int64Value", {}, 0), ("Int64Value", {"value": Optional(3)}, 3),
        ("Int64Value", {"value": "a"}, EvaluationError), ("Int32Value", {"value": 2**31}, EvaluationError),
        ("UInt32Value", {"value": Uint(5)}, Uint(5)), ("UInt32Value", {"value": Uint(2**32)}, EvaluationError),
        ("FloatValue", {"value": 0.5}, 0.5),
        ("DoubleValue", {"value": 1}, EvaluationError), ("StringValue", {"value": "a"}, "a"), ("BoolValue", {}, False),
        ("BytesValue", {"value": b"a"}, b"a"), ("Value", {}, None), ("Value", {"null_value": 0}, None),
        ("Value", {"list_value": [1, Uint(2), None, b"ab"]}, [1.0, 2.0, None, "YWI="]),
        ("Value", {"list_value": [2**53]}, [str(2**53)]), ("Value", {"list_value": [Duration(90 * 10**9)]}, ["90s"]),
        ("Value", {"struct_value": {1: 2}}, EvaluationError), ("ListValue", {}, []), ("Struct", {}, {}),
        ("Struct", {"fields": {"a": [1]}}, {"a": [1.0]}), ("Any", {"type_url": "a"}, EvaluationError),
        ("NoSuchThing", {}, EvaluationError),
    ],
)  # fmt: skip
def test_messages_are_values_of_other_types(name: str, fields: dict[str, Any], expected: Any) -> None:
    make = messages.maker(f"google.protobuf.{name}", tuple(fields), frozenset())
    if expected is EvaluationError:
        with pytest.raises(EvaluationError):
            make(*fields.values())
    else:
        assert make(*fields.values()) == expected


def test_times_in_messages_are_not_limited_to_cels_years() -> None:
    timestamp = messages.maker("google.protobuf.Timestamp", ("seconds", "nanos"), frozenset())
    assert timestamp(0, -1).unix == -1
    assert timestamp(0, -1).nanoseconds == 999_999_999
    assert timestamp(99_999_999_999_999, 0).year() > 9999
    duration = messages.maker("google.protobuf.Duration", ("seconds",), frozenset())
    assert duration(2**62).nanoseconds == 2**63 - 1


def test_optional_fields_may_be_absent() -> None:
    make = messages.maker("google.protobuf.Int64Value", ("value",), frozenset((0,)))
    assert make(NONE) == 0
    assert make(Optional(4)) == 4
    with pytest.raises(EvaluationError, match="non-optional"):
        make(4)
