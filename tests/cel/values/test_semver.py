"""Versions give the answers of Kubernetes 1.37."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.values.semver import is_semver, parse

STRICT = [
    "0.0.0", "1.2.3", "10.20.30", "1.2.3-alpha", "1.2.3-alpha.1", "1.2.3-0", "1.2.3-0a", "1.2.3--", "1.2.3---",
    "1.2.3-a-b.c", "1.2.3+build", "1.2.3+01", "1.2.3-rc.1+b.7", "1.2.3+a-b", "18446744073709551615.0.0",
]  # fmt: skip
ONLY_NORMALIZED = [
    "1", "1.2", "v1", "v1.2.3", "01.2.3", "1.02.3", "1.2.03", "v01.002.0003", "00.0.0", "000", "v1.2.3-rc.1",
]  # fmt: skip
NEVER = [
    "", "v", "V1", "vv1", "a.b.c", "1.x", "1.2.0x", "1.2.3.4", "1.2.3.4-x", "1.2.3-01", "01.2.3-01", "1.2.3-", "1.2.3+",
    "1.2.3-a..b", "1.2.3+a..b", "1.2.3+b+c", "1.2.3-a_b", "1.2.3-é", "é.2.3", "1.2.3 ", " 1.2.3", "1.2.3\n", "-1.2.3",
    "1.-2.3", "1..3", ".2.3", "1.2.", "1-alpha", "1+b", "1.2-rc", "18446744073709551616.0.0",
    "1.2.3-18446744073709551616", "٣.0.0",
]  # fmt: skip

# Each is less than the next.
ASCENDING = [
    "0.0.0", "0.0.1", "0.1.0", "1.0.0-0", "1.0.0-2", "1.0.0-10", "1.0.0--", "1.0.0-0a", "1.0.0-A", "1.0.0-a",
    "1.0.0-a.0", "1.0.0-a.b", "1.0.0-a.b.0", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta",
    "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1-0", "1.2.0", "1.10.0", "2.0.0", "10.0.0",
    "9223372036854775808.0.0",
]  # fmt: skip

versions = st.builds(
    "{}.{}.{}{}{}".format,
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 12),
    st.sampled_from(["", "-1", "-a", "-a.1", "-a.b", "-11", "-2"]),
    st.sampled_from(["", "+build", "+1.2"]),
)


@pytest.mark.parametrize("text", STRICT)
def test_a_full_version_is_one_normalized_or_not(text: str) -> None:
    assert is_semver(text)
    assert parse(text).equals(parse(text, normalize=True))


@pytest.mark.parametrize("text", ONLY_NORMALIZED)
def test_a_short_version_is_one_when_normalized(text: str) -> None:
    assert not is_semver(text)
    assert is_semver(text, normalize=True)


@pytest.mark.parametrize("text", NEVER)
@pytest.mark.parametrize("normalize", [False, True])
def test_anything_else_is_refused(text: str, normalize: bool) -> None:
    assert not is_semver(text, normalize=normalize)
    with pytest.raises(EvaluationError):
        parse(text, normalize=normalize)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("v1", (1, 0, 0)),
        ("01.02", (1, 2, 0)),
        ("550.54.15-rc.1+b", (550, 54, 15)),
        ("18446744073709551615.9223372036854775808.0", (-1, -9223372036854775808, 0)),
    ],
)
def test_the_numbers_of_a_version(text: str, numbers: tuple[int, int, int]) -> None:
    version = parse(text, normalize=True)
    assert (version.major, version.minor, version.patch) == numbers


def test_versions_ascend() -> None:
    for low, high in pairwise(map(parse, ASCENDING)):
        assert (low.compare(high), high.compare(low)) == (-1, 1)
        assert low.is_less(high)
        assert high.is_greater(low)
        assert not low.equals(high)


def test_the_wrong_part_is_named() -> None:
    with pytest.raises(EvaluationError, match="minor number"):
        parse("1.x.0")


def test_a_version_of_very_many_characters_is_neither_read_nor_denied() -> None:
    for read in (parse, is_semver):
        with pytest.raises(BudgetError):
            read("1.0.0-" + "a." * 1000 + "a")
    assert not is_semver("1.0.0 " * 1000)


@given(st.lists(versions, min_size=3, max_size=3))
def test_the_order_is_total(texts: list[str]) -> None:
    low, middle, high = sorted(map(parse, texts), key=lambda version: version.order)
    assert low.compare(middle) <= 0
    assert middle.compare(high) <= 0
    assert low.compare(high) <= 0
    assert low.compare(high) == -high.compare(low)


@given(versions)
def test_build_metadata_makes_no_difference(text: str) -> None:
    assert parse(text).equals(parse(text.partition("+")[0]))


@given(st.text(max_size=12))
def test_any_text_is_a_version_or_refused(text: str) -> None:
    if is_semver(text):
        assert is_semver(text, normalize=True)
