"""Functions of strings give the answers of Kubernetes 1.36 and 1.37."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.values import strings
from gpusharing.cel.values.bounds import LONGEST_TEXT, MOST_PIECES

texts = st.text(st.sampled_from("aab é,\N{GRINNING FACE}\n"), max_size=8)
parts = st.text(st.sampled_from("ab é"), min_size=1, max_size=2)


@pytest.mark.parametrize(("index", "character"), [(0, "h"), (1, "é"), (4, "o"), (5, "")])
def test_the_character_at_an_index_or_nothing_right_behind_the_end(index: int, character: str) -> None:
    assert strings.char_at("héllo", index) == character


@pytest.mark.parametrize("index", [-1, 6, (1 << 63) - 1])
def test_there_is_no_character_elsewhere(index: int) -> None:
    with pytest.raises(EvaluationError, match=f"index out of range: {index}"):
        strings.char_at("héllo", index)


@pytest.mark.parametrize(
    ("part", "start", "first", "last"),
    [
        ("l", 0, 2, -1),
        ("l", 2, 2, 2),
        ("l", 3, 3, 3),
        ("l", 4, -1, 3),
        ("o", 4, 4, 4),
        ("o", 5, -1, -1),
        ("llo", 4, -1, 2),
        ("héllo!", 0, -1, -1),
        ("", 0, 0, 0),
        ("", 5, 5, 5),
        ("x", (1 << 63) - 1, -1, -1),
    ],
)
@pytest.mark.parametrize("minor", [36, 37])
def test_where_a_part_is(part: str, start: int, first: int, last: int, minor: int) -> None:
    assert strings.index_of("héllo", part, start, minor) == first
    assert strings.last_index_of("héllo", part, start, minor) == last


def test_the_empty_part_was_found_beyond_the_text_up_to_1_36() -> None:
    for search in (strings.index_of, strings.last_index_of):
        assert [search("abc", "", start, 36) for start in (-1, 2, 9)] == [-1, 2, 9]
        assert [search("abc", "", start, 37) for start in (0, 2, 9)] == [0, 2, 3]
        with pytest.raises(EvaluationError, match="index out of range: -1"):
            search("abc", "", -1, 37)
        with pytest.raises(EvaluationError, match="index out of range: -1"):
            search("abc", "a", -1, 36)


def test_only_ascii_letters_change_their_case() -> None:
    assert strings.lower_ascii("ABCxyz") == "abcxyz"
    assert strings.lower_ascii("ÀBÇ\N{KELVIN SIGN}") == "ÀbÇ\N{KELVIN SIGN}"
    assert strings.upper_ascii("abcXYZ") == "ABCXYZ"
    assert strings.upper_ascii("àbçß") == "àBçß"


@pytest.mark.parametrize(
    ("text", "old", "new", "limit", "expected"),
    [
        ("aaa", "a", "b", -1, "bbb"),
        ("aaa", "a", "bc", 2, "bcbca"),
        ("aaa", "a", "bc", 0, "aaa"),
        ("aaa", "a", "", -(1 << 63), ""),
        ("abé", "", "-", -1, "-a-b-é-"),
        ("abé", "", "-", 2, "-a-bé"),
        ("", "", "x", (1 << 63) - 1, "x"),
        ("ababa", "aba", "x", -1, "xba"),
    ],
)
def test_replacing(text: str, old: str, new: str, limit: int, expected: str) -> None:
    assert strings.replace(text, old, new, limit) == expected


def test_a_replacement_must_not_blow_up() -> None:
    half = "x" * (LONGEST_TEXT // 2)
    assert len(strings.replace(half, "x", "yy")) == LONGEST_TEXT
    with pytest.raises(BudgetError):
        strings.replace(half + "x", "x", "yy")
    with pytest.raises(BudgetError):
        strings.replace("x" * 4000, "", "y" * 4000)
    assert len(strings.replace("x" * 4000, "x", "y" * 4000, 1)) == 7999


@pytest.mark.parametrize(
    ("text", "separator", "limit", "expected"),
    [
        ("a,b,c", ",", -1, ["a", "b", "c"]),
        ("a,b,c", ",", 0, []),
        ("a,b,c", ",", 1, ["a,b,c"]),
        ("a,b,c", ",", 2, ["a", "b,c"]),
        ("a,b,c", ",", 9, ["a", "b", "c"]),
        (",a,", ",", -5, ["", "a", ""]),
        ("", ",", -1, [""]),
        ("aéb", "", -1, ["a", "é", "b"]),
        ("aéb", "", 2, ["a", "éb"]),
        ("aéb", "", 1, ["aéb"]),
        ("", "", -1, []),
        ("", "", 3, []),
    ],
)
def test_splitting(text: str, separator: str, limit: int, expected: list[str]) -> None:
    assert strings.split(text, separator, limit) == expected


@pytest.mark.parametrize("separator", ["", "a"])
def test_a_text_is_not_split_into_very_many_pieces(separator: str) -> None:
    text = "a" * (MOST_PIECES + 1)
    with pytest.raises(BudgetError):
        strings.split(text, separator)
    assert len(strings.split(text, separator, 10)) == 10


@pytest.mark.parametrize(("start", "end", "expected"), [(0, None, "héllo"), (5, None, ""), (1, 3, "él"), (2, 2, "")])
def test_a_part_of_a_text(start: int, end: int | None, expected: str) -> None:
    assert strings.substring("héllo", start, end) == expected


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (6, None, "index out of range: 6"),
        (-1, None, "index out of range: -1"),
        (2, 1, "invalid substring range. start: 2, end: 1"),
        (-1, 2, "index out of range: -1"),
        (1, 6, "index out of range: 6"),
    ],
)
def test_a_part_must_lie_in_the_text(start: int, end: int | None, message: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        strings.substring("héllo", start, end)
    assert caught.value.message == message


def test_white_space_is_that_of_unicode_and_not_of_python() -> None:
    white = "\t\n\v\f\r \x85\xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000"
    assert strings.trim(f"{white}a {white}") == "a"
    for other in ("\x1c", "\x1f", "\u200b", "\ufeff", "\u180e"):
        assert strings.trim(f" {other} ") == other


@pytest.mark.parametrize(
    ("items", "separator", "expected"), [([], ",", ""), (["a"], ",", "a"), (["a", "", "é"], ", ", "a, , é")]
)
def test_joining(items: list[str], separator: str, expected: str) -> None:
    assert strings.join(items, separator) == expected


@pytest.mark.parametrize("item", [1, b"a", None, True, ["a"]])
def test_only_strings_are_joined(item: Any) -> None:
    with pytest.raises(EvaluationError, match="join: invalid input"):
        strings.join(["a", item])


def test_a_joined_text_must_not_blow_up() -> None:
    with pytest.raises(BudgetError):
        strings.join(["a" * 1000] * 2000)
    with pytest.raises(BudgetError):
        strings.join([""] * 2000, "b" * 1000)


def test_a_text_is_quoted_as_a_literal_of_cel() -> None:
    assert strings.quote('a\a\b\f\n\r\t\v\\"é\x00\x7f') == '"a\\a\\b\\f\\n\\r\\t\\v\\\\\\"é\x00\x7f"'
    with pytest.raises(BudgetError):
        strings.quote('"' * LONGEST_TEXT)


@given(texts, parts)
def test_what_was_split_is_joined_again(text: str, separator: str) -> None:
    assert strings.join(strings.split(text, separator), separator) == text
    assert strings.join(strings.split(text, "")) == text


@given(texts, parts, st.integers(0, 8))
def test_a_part_stands_where_it_is_found(text: str, part: str, start: int) -> None:
    first = strings.index_of(text, part, start, 37)
    last = strings.last_index_of(text, part, start, 37)
    if first >= 0:
        assert first >= start
        assert strings.substring(text, first, first + len(part)) == part
    if last >= 0:
        assert last <= start
        assert strings.substring(text, last, last + len(part)) == part


@given(texts, parts, st.text(max_size=3), st.integers(-2, 5))
def test_replacing_is_splitting_and_joining(text: str, old: str, new: str, limit: int) -> None:
    pieces = strings.split(text, old, limit + 1 if limit >= 0 else -1)
    assert strings.replace(text, old, new, limit) == strings.join(pieces, new)
