"""However many namespaces there are, the page stays short and its sums stay right."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.core.figures import rows
from gpusharing.core.figures.rows import MOST_ROWS, OTHERS, Row, bounded, largest

FEW = 3
some_rows = st.dictionaries(
    st.builds(Row, st.sampled_from(["p", "q", ""]), st.sampled_from("abcde"), st.sampled_from(["x", "y"])),
    st.integers(-3, 3),
)


def shortened(found: Mapping[Row, int]) -> Mapping[Row, int]:
    return bounded(found, largest(found))


def totals(found: Mapping[Row, int]) -> Mapping[tuple[str, str], int]:
    sums: Counter[tuple[str, str]] = Counter()
    for row, number in found.items():
        sums[row.policy, row.value] += number
    return sums


@given(some_rows)
def test_sums_are_the_same_and_the_largest_have_names(found: Mapping[Row, int]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rows, "MOST_ROWS", FEW)
        short = shortened(found)
    named = {row: number for row, number in short.items() if row.namespace != OTHERS}
    assert len(named) == min(FEW, len(found))
    assert named.items() <= found.items()
    assert sorted(named.values()) == sorted(found.values())[len(found) - len(named) :]
    assert totals(short) == totals(found)


def test_ten_thousand_namespaces_are_a_few_hundred_rows() -> None:
    found = {Row(policy, f"n{number:05}", "x"): 1 for policy in "pq" for number in range(10_000)} | {
        Row("q", "large", "x"): 7
    }
    short = shortened(found)
    assert len(short) == MOST_ROWS + 2
    assert short[Row("q", "large", "x")] == 7
    assert short[Row("q", OTHERS, "x")] == 10_000
    # Whatever comes first in the state of the cluster: the same ones have names each time.
    assert shortened(dict(reversed(found.items()))) == short


def test_where_there_are_few_nothing_is_added_up() -> None:
    found = {Row("p", "a", "x"): 1, Row("", "a", "x"): 0}
    assert shortened(found) == found
