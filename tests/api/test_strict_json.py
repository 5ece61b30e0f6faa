"""JSON as drivers must read it: nothing in it may hide anything, or stop us."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import json_values
from gpusharing.api import strict_json


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        pytest.param("{}", [], id="empty"),
        pytest.param('{"a":1,"b":{"a":2}}', [], id="the same key at two levels"),
        pytest.param('[{"a":1},{"a":2}]', [], id="the same key in two objects"),
        pytest.param('{"a":1,"a":1}', ["a"], id="the same value"),
        pytest.param('{"a":1,"a":2,"a":3}', ["a"], id="three times, told once"),
        pytest.param('{"b":1,"a":1,"b":2,"a":2}', ["a", "b"], id="two keys, sorted"),
        pytest.param('{"a":1,"\\u0061":2}', ["a"], id="spelled differently"),
        pytest.param('{"a":{"b":{"c":1,"c":2}}}', ["a.b.c"], id="nested"),
        pytest.param('{"a":[1,[{"x":1,"x":2}]]}', ["a.1.0.x"], id="in lists"),
        pytest.param('{"a":1,"a":{"b":1,"b":2}}', ["a", "a.b"], id="inside of what stands twice"),
        pytest.param('{"k":{"a":1,"a":2},"l":{"b":1,"b":2}}', ["k.a", "l.b"], id="all of them"),
        pytest.param('"a"', [], id="no object at all"),
    ],
)
def test_repeated_keys(text: str, repeated: list[str]) -> None:
    assert strict_json.repeated_keys(strict_json.loads(text)) == repeated
    assert strict_json.repeated_keys(strict_json.loads(text.encode())) == repeated


@given(json_values.values)
def test_what_is_repeated_is_still_known_after_any_other_reader(value: Any) -> None:
    twice = json.dumps({"a": value}).replace('"a": ', '"a": 0, "a": ', 1)
    handed_on = json.loads(json.dumps(strict_json.loads(twice)))
    assert strict_json.repeated_keys(handed_on) == ["a"]


@pytest.mark.parametrize("value", [5, "x", None, {"a": 1}, [], ["x", 5, {}]])
def test_who_writes_the_mark_by_hand_stops_nothing(value: Any) -> None:
    strict_json.repeated_keys({strict_json._REPEATED: value})


def test_the_last_of_repeated_keys_counts_as_it_does_for_the_api_server() -> None:
    read = strict_json.loads('{"a":1,"b":2,"a":3}')
    assert (read["a"], read["b"]) == (3, 2)


def test_many_repeated_keys_take_no_time() -> None:
    # Quadratic work on the 10 KiB that a tenant may write would stop the operator for everybody.
    keys = [f'"{number}":0' for number in range(50_000)]
    assert len(strict_json.repeated_keys(strict_json.loads("{" + ",".join(keys + keys) + "}"))) == 50_000


@given(json_values.values)
def test_reads_what_the_standard_library_reads(value: Any) -> None:
    text = json.dumps(value)
    assert strict_json.loads(text) == json.loads(text)
    assert strict_json.repeated_keys(strict_json.loads(text)) == []


@given(json_values.values)
def test_canonical_bytes_say_the_same_and_only_depend_on_the_value(value: Any) -> None:
    written = strict_json.canonical(value)
    assert strict_json.loads(written) == value
    assert strict_json.canonical(strict_json.loads(written)) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"b": [1, {"d": None, "c": True}], "a": "x"}, b'{"a":"x","b":[1,{"c":true,"d":null}]}'),
        ({"ü": "日本 <&>"}, '{"ü":"日本 <&>"}'.encode()),
        ({"a": "\ud800"}, b'{"a":"\\ud800"}'),
        ([], b"[]"),
    ],
)
def test_canonical_is_compact_and_sorted(value: Any, written: bytes) -> None:
    assert strict_json.canonical(value) == written


@pytest.mark.parametrize("depth", [500, 900, 5_000])
def test_one_deeply_nested_value_does_not_hide_the_others(depth: int) -> None:
    # kube-apiserver 1.37 takes opaque parameters of 10 KiB that are nested 4,990 levels deep.
    deep = f'{{"deep":[{"[" * depth}{"]" * depth}],"text":"}}]\\"","after":{{"a":[1]}}}}'
    for data in (deep, deep.encode()):
        read = strict_json.loads(f"[{deep},1]" if isinstance(data, str) else b"[" + data + b",1]")
        assert (read[0]["text"], read[0]["after"], read[1]) == ('}]"', {"a": [1]}, 1)


@pytest.mark.parametrize(
    ("value", "limit", "too_deep"),
    [
        (1, 0, False),
        ([], 0, True),
        ([], 1, False),
        ({"a": []}, 1, True),
        ({"a": []}, 2, False),
        ([1, {"a": [{}]}, 2], 3, True),
        ([1, {"a": [{}]}, 2], 4, False),
    ],
)
def test_is_too_deep(value: Any, limit: int, *, too_deep: bool) -> None:
    assert strict_json.is_too_deep(value, limit) == too_deep


@given(st.integers(min_value=1, max_value=2_000))
def test_whatever_is_read_can_be_measured(depth: int) -> None:
    assert strict_json.is_too_deep(strict_json.loads("[" * depth + "]" * depth)) == (depth > strict_json.MAX_DEPTH)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a":"\xff"}', {"a": "\ufffd"}),
        (b'{"a":"x\xe2\x82y"}', {"a": "x\ufffdy"}),
        (b'{"\xff":1}', {"\ufffd": 1}),
        ('"é😀"'.encode(), "é😀"),
        (b"-" + b"9" * 5000, float("-inf")),
        (b"9" * 4000, int("9" * 4000)),
        (b"1e400", float("inf")),
    ],
)
def test_reads_what_go_reads(data: bytes, value: Any) -> None:
    assert strict_json.loads(data) == value


def test_keys_that_are_read_alike_stand_twice() -> None:
    assert strict_json.repeated_keys(strict_json.loads(b'{"\xff":1,"\xfe":2}')) == ["\ufffd"]


@pytest.mark.parametrize("text", ["", "{", '{"a":}', "[1,]", '{"a" 1}', "nul", "[" * 5_000])
def test_what_is_not_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        strict_json.loads(text)
