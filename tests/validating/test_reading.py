"""YAML as Kubernetes reads it, with the places of its parts; and files that nobody should read to their end."""

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.validating import scalars
from gpusharing.validating.reading import Mark, UnreadableError, documents

DEEP = "nested more than 100 levels deep"
LAUGHS = "x: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"y{number}: &a{number} [{','.join([f'*a{number - 1}' if number else '*a'] * 10)}]\n" for number in range(12)
)


def one(text: str) -> object:
    (document,) = documents(text)
    return document.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True), ("Off", False), ("y", True), ("~", None), ("null", None),
        ("010", 8), ("0o10", 8), ("0x1F", 31), ("0b11", 3), ("1_000", 1000), ("-5", -5), ("+5", 5),
        ("1.5", 1.5), ("4.0", 4), (".5", 0.5), ("1e3", 1000), ("25%", "25%"), ("1.2.3", "1.2.3"), ("8Gi", "8Gi"),
        ("09", 9), ("-", "-"), ("0x", "0x"), ("2026-11-20", "2026-11-20"), ("9" * 400, "9" * 400),
    ],
)  # fmt: skip
def test_scalars(text: str, value: object) -> None:
    assert scalars.resolve(text) == value
    assert type(scalars.resolve(text)) is type(value)


def test_a_document_knows_where_its_parts_stand() -> None:
    (document,) = documents("a: 1\nb:\n  - c: {d: x}\n  - |\n    text\n")
    assert document.mark(("a",)) == Mark(1, 4)
    assert document.mark(("a",), at_key=True) == Mark(1, 1)
    assert document.mark(("b",)) == Mark(2, 1)
    assert document.mark(("b", 0, "c", "d")) == Mark(3, 12)
    assert document.mark(("b", 0, "c", "missing")) == Mark(3, 5)
    assert document.mark(("b", 7)) == Mark(2, 1)


def test_merges_and_aliases() -> None:
    text = "base: &base {a: 1, b: 2}\nmade: {<<: *base, b: 3}\nlist: [*base, *base]"
    assert one(text) == {"base": {"a": 1, "b": 2}, "made": {"b": 3, "a": 1}, "list": [{"a": 1, "b": 2}] * 2}


def test_keys_become_those_of_json() -> None:
    assert one("1: a\ntrue: b\n~: c\n") == {"1": "a", "true": "b", "null": "c"}


def test_keys_that_stand_twice_are_told() -> None:
    (document,) = documents("a:\n- {b: 1, b: 2}\n- c: 1\na: 2\n")
    assert document.repeated == (("a", 0, "b"), ("a",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "did not find"),
        ("[" * 100_000, DEEP),
        ("{a: " * 100_000, DEEP),
        ("- " * 100_000, DEEP),
        (LAUGHS, "more than 1,000,000 values"),
        ("&a [*a]", "no anchor is named a"),
        ("a: *b", "no anchor is named b"),
        ("? [1]\n: 2", "the key of a mapping must be a string"),
        ("{{ .Values.name }}: 1", "the key of a mapping must be a string"),
        ("\x00", "unacceptable character"),
        ("<<: 1", "needs a mapping"),
        ("a" * (16 * 1024 * 1024 + 1), "more than 16 MiB"),
    ],
    ids=lambda text: text[:12],
)
def test_what_cannot_be_read_is_told_at_once(text: str, message: str) -> None:
    begin = time.process_time()
    with pytest.raises(UnreadableError, match=message):
        list(documents(text))
    assert time.process_time() - begin < 5


def test_what_stands_before_is_read() -> None:
    found = documents("a: 1\n---\nb: [")
    assert next(found).value == {"a": 1}
    with pytest.raises(UnreadableError):
        next(found)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8", exclude_categories=["C"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES)
def test_what_is_written_is_read(value: object) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    assert [document.value for document in documents(text)] == ([] if value is None else [value])


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        list(documents(text))
    except UnreadableError as error:
        assert str(error)  # noqa: PT017 (either is right)
