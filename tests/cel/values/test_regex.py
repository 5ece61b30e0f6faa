"""Regular expressions match as in Kubernetes 1.37, built with Go 1.26."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.values.regex import Regex

# Pattern, text, all matches; the text matches if there is any.
MATCHES: list[tuple[str, str, list[str]]] = [
    ("a+", "baaa", ["aaa"]),
    ("^a$", "a\n", []),
    ("(?m)^a$", "b\na", ["a"]),
    ("", "abc", ["", "", "", ""]),
    ("a*", "baac", ["", "aa", ""]),
    ("a*?", "aa", ["", "", ""]),
    ("b|", "abc", ["", "b", ""]),
    ("$", "ab", [""]),
    (r"\B", "é", ["", ""]),
    (r"\B", "a\N{KELVIN SIGN}é", ["", ""]),
    (r"\B", "aéa", []),
    (r"\b", "ab c", ["", "", "", ""]),
    ("(|a)*", "aa", ["", "", ""]),
    ("é", "aéé", ["é", "é"]),
    (".", "a\né\N{GRINNING FACE}", ["a", "é", "\N{GRINNING FACE}"]),
    ("(?i)k", "K\N{KELVIN SIGN}", ["K", "\N{KELVIN SIGN}"]),
    (r"\d+", "a1b22٣", ["1", "22"]),
    (r"\w", "é_", ["_"]),
    ("[[:alpha:]]+", "ab1", ["ab"]),
    (r"\pL+", "aé1", ["aé"]),
    (r"\pl+", "aé1", ["aé"]),
    (r"\p{Greek}", "δ", ["δ"]),
    (r"\p{greek}", "δ", ["δ"]),
    (r"\p{Letter}+", "aé1", ["aé"]),
    (r"[\p{uppercase letter}]", "aB", ["B"]),
    (r"\P{lu}", "Ba", ["a"]),
    (r"\p{^-lu}", "Ba", ["a"]),
    (r"[]\pl]", "]", ["]"]),
    ("(?P<n>x)(?<n>y)", "xy", ["xy"]),
    (r"\Qa.b\E", "axb a.b", ["a.b"]),
    (r"\Q\C\E", r"\C", [r"\C"]),
    (r"\\C", r"\C", [r"\C"]),
    ("x{2}", "xxx", ["xx"]),
    ("x{,2}", "x{,2}", ["x{,2}"]),
    ("x{01}", "x{01}", ["x{01}"]),
    ("[{9999999999}]", "9", ["9"]),
    (r"\{9999999999}", "{9999999999}", ["{9999999999}"]),
    ("a{123456789", "a{123456789", ["a{123456789"]),
    ("[(?<é>]", "é", ["é"]),
    ("a|ab", "ab", ["a"]),
    ("(a+)+$", "aaaa!", []),
]

REFUSED = [
    "(", "[", "a**", "a++", "*a", "a{1001}", "a{2,1}", "(a{500}){3}", "(?=a)", "(?!a)", "(?<=a)", "(?<=a>b)", "(?#c)",
    "(?P=n)", r"\1", r"\8", "\\", r"\Z", r"\C", r"[\C]", r"a\\\C", r"\p{Foo}", r"\p{Old_Persian}", r"\p{}", r"\pé",
    "(?P<é>a)", "(?<a-b>c)", "a{9999999999}", "a{1,9999999999}", "[z-a]", "[[:foo:]]", "(" * 1000 + ")" * 1000,
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "text", "matches"), MATCHES)
def test_matches(pattern: str, text: str, matches: list[str]) -> None:
    regex = Regex(pattern)
    assert regex.find_all(text) == matches
    assert regex.matches(text) == bool(matches)
    assert regex.find(text) == (matches[0] if matches else "")


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_go_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(EvaluationError, match="error parsing regexp"):
        Regex(pattern)


def test_groups_may_be_as_deep_as_in_go() -> None:
    assert Regex("(" * 999 + "a" + ")" * 999).matches("a")
    assert Regex(r"[(]\(\Q((\E" * 400 + "a").find("") == ""


@pytest.mark.parametrize(
    ("limit", "found"), [(-1, ["1", "2"]), (-5, ["1", "2"]), (0, []), (1, ["1"]), (2, ["1", "2"]), (9, ["1", "2"])]
)
def test_a_negative_limit_is_none(limit: int, found: list[str]) -> None:
    assert Regex(r"\d").find_all("a1b2", limit) == found


def test_a_byte_that_a_url_left_in_a_text_is_a_character() -> None:
    assert Regex("^a.b$").matches("a\udcffb")


def test_a_pattern_that_takes_too_much_memory_is_out_of_budget() -> None:
    with pytest.raises(BudgetError, match="pattern too large"):
        Regex(r"\pL{1000}")


@pytest.mark.parametrize("pattern", ["(a|b)*a(a|b){20}c", "[ab]*a[ab]{900}c", "(x+x+)+y", "(?:.?){900}z", "(a*)*b"])
def test_no_search_takes_long(pattern: str) -> None:
    regex = Regex(pattern)
    text = "ab" * 500_000
    started = time.process_time()
    while text:
        try:
            regex.matches(text)
            regex.find_all(text)
            break
        except BudgetError:
            text = text[: len(text) // 2]
    assert time.process_time() - started < 10


def test_program_size_tells_what_repetition_costs() -> None:
    assert Regex("[ab]{900}").program_size > 50 * Regex("[ab]{9}").program_size


simple = st.from_regex(r"\A([ab.]|\[ab\]|\(a\|b\))([*+?]|\{1,2\})?([ab.][*+?]?){0,2}\Z")


@given(simple, st.text(st.sampled_from("abc"), max_size=8))
def test_simple_patterns_match_as_in_python(pattern: str, text: str) -> None:
    expected = re.search(pattern, text)
    assert Regex(pattern).matches(text) == (expected is not None)
    assert Regex(pattern).find(text) == (expected[0] if expected else "")


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_pattern_matches_or_is_refused(pattern: str, text: str) -> None:
    try:
        regex = Regex(pattern)
    except EvaluationError:
        return
    matches = regex.find_all(text)
    assert regex.matches(text) == bool(matches)
    assert all(match in text for match in matches)
