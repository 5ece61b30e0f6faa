"""On how many nodes at a time a policy disturbs anybody."""

from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.api.sharing.rollout import Rollout
from gpusharing.core.rollout.budget import Part, held_back, parts
from gpusharing.core.rollout.gpu_change import NodeRollout


class Case(NamedTuple):
    at_most: int | str
    asking: str
    """A letter a node."""
    held: str
    changing: str = ""
    failing: str = ""
    selected: int = 10


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(1, "", ""), id="nobody asks"),
        pytest.param(Case(1, "a", ""), id="one of one"),
        pytest.param(Case(1, "cab", "bc"), id="by name"),
        pytest.param(Case(2, "abc", "c"), id="two at a time"),
        pytest.param(Case(1, "ab", "ab", changing="x"), id="another one is under way"),
        pytest.param(Case(2, "ab", "b", changing="x"), id="there is room beside it"),
        pytest.param(Case(1, "ab", "ab", failing="x"), id="one that fails takes up its place"),
        pytest.param(Case(2, "ab", "ab", failing="xy"), id="and as many as are allowed stop it"),
        pytest.param(Case(1, "ab", "a", changing="b"), id="one that is under way may have what is wanted now"),
        pytest.param(Case(1, "ab", "a", failing="b"), id="one that fails as well: it may be what mends it"),
        pytest.param(Case(1, "abc", "a", failing="bc"), id="also where more fail than are allowed by now"),
        pytest.param(Case(2, "ab", "b", changing="x", failing="x"), id="one that is changing and fails is one"),
        pytest.param(Case("30%", "abcd", "d"), id="a percentage of those that are selected"),
        pytest.param(Case("39%", "abcd", "d"), id="rounded down"),
        pytest.param(Case("1%", "ab", "b"), id="at least one"),
        pytest.param(Case("100%", "abcd", ""), id="all"),
    ],
)
def test_who_is_held_back(case: Case) -> None:
    nodes = parts_of(case.asking, case.changing, case.failing)
    others = {
        f"n{number}": Part(selected=True, asking=False, changing=False, failing=False)
        for number in range(case.selected)
    }
    assert held_back(Rollout(max_unavailable=case.at_most), others | nodes) == set(case.held)


def parts_of(asking: Iterable[str], changing: Iterable[str], failing: Iterable[str]) -> dict[str, Part]:
    """Of nodes that are not selected, such as those that the policy gives away."""
    return {
        node: Part(selected=False, asking=node in asking, changing=node in changing, failing=node in failing)
        for node in {*asking, *changing, *failing}
    }


nodes = st.sets(st.sampled_from("abcdefgh"))


@given(nodes, nodes, nodes, st.integers(1, 9))
def test_never_more_than_are_allowed_begin(asking: set[str], changing: set[str], failing: set[str], most: int) -> None:
    begun = asking - held_back(Rollout(max_unavailable=most), parts_of(asking, changing, failing))
    under_way = changing | failing
    assert begun >= asking & under_way
    assert len(begun | under_way) <= max(most, len(under_way))
    # And not fewer than could.
    assert len(begun | under_way) >= min(most, len(asking | under_way))


def test_each_policy_has_a_part_of_its_own() -> None:
    rollout = NodeRollout(changes=(), asking=frozenset("ab"), changing=frozenset("b"), failing=frozenset("c"))
    assert parts(rollout, {"a", "d"}) == {
        "a": Part(selected=True, asking=True, changing=False, failing=False),
        "b": Part(selected=False, asking=True, changing=True, failing=False),
        "c": Part(selected=False, asking=False, changing=False, failing=True),
        "d": Part(selected=True, asking=False, changing=False, failing=False),
    }
