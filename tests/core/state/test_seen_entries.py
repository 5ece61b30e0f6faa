"""Which entries of guards are known to be in force."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from gpusharing.core.state.seen_entries import Entry, Standing, in_force, standing

A, B, C = (Entry("tenants", name, '[["Exists", "team"]]') for name in "abc")
OTHER_A = A._replace(literal="[]")


def after(*versions: tuple[int, set[Entry]]) -> Standing:
    """`versions` of a guard: their revisions, and what stands in them."""
    there: Standing = {}
    for revision, entries in versions:
        there = standing(there, entries, revision)
    return there


def test_an_entry_is_in_force_when_a_revision_was_seen_that_has_it() -> None:
    there = after((3, {A}), (5, {A, B}))
    assert [in_force(there, seen) for seen in (0, 2, 3, 4, 5, 9)] == [
        set(), set(), {A}, {A}, {A, B}, {A, B}
    ]  # fmt: skip


def test_one_that_was_away_or_was_another_has_to_be_seen_again() -> None:
    assert in_force(after((3, {A}), (5, {OTHER_A}), (7, {A})), 5) == set()
    assert in_force(after((3, {A, B}), (5, {B}), (7, {A, B})), 5) == {B}


def test_what_has_no_revision_is_never_in_force() -> None:
    assert in_force(after((0, {A})), 9) == set()
    assert in_force(after((0, {A}), (4, {A})), 3) == set()
    assert in_force(after((0, {A}), (4, {A})), 4) == {A}


@given(st.lists(st.sets(st.sampled_from([A, B, C, OTHER_A])), min_size=1), st.data())
def test_what_is_in_force_stands_in_each_version_that_a_server_may_go_by(
    versions: list[set[Entry]], data: st.DataObject
) -> None:
    """A server that was seen at one goes by that one, or by any later one."""
    numbered: Mapping[int, set[Entry]] = dict(enumerate(versions, start=1))
    seen = data.draw(st.integers(0, len(versions)))
    found = in_force(after(*numbered.items()), seen)
    may_go_by = [entries for revision, entries in numbered.items() if revision >= seen > 0]
    assert found == (set.intersection(*may_go_by) if may_go_by else set())
