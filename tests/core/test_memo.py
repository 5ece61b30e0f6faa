"""Results that are made again only when what they are made of has changed."""

from gpusharing.core.memo import Memo


def test_only_what_is_made_of_other_things_is_made_again() -> None:
    memo: Memo[tuple[int], str] = Memo()
    made: list[int] = []

    def make(of: tuple[int]) -> str:
        made.append(of[0])
        return f"of {of[0]}"

    assert memo.map(make, {"a": (1,), "b": (2,)}) == ["of 1", "of 2"]
    assert memo.map(make, {"b": (3,), "a": (1,)}) == ["of 3", "of 1"]
    assert made == [1, 2, 3]
    # Inputs that were not asked for are forgotten.
    memo.map(make, {"b": (3,)})
    memo.map(make, {"a": (1,)})
    assert made == [1, 2, 3, 1]


def test_they_come_in_the_order_of_the_inputs() -> None:
    memo: Memo[tuple[int], int] = Memo()
    memo.map(lambda of: of[0], {"a": (1,), "b": (2,)})
    assert memo.map(lambda of: of[0], {"b": (2,), "a": (1,)}) == [2, 1]


def test_one() -> None:
    memo: Memo[tuple[str], object] = Memo()
    first = memo.one(lambda _: object(), ("a",))
    assert memo.one(lambda _: object(), ("a",)) is first
    assert memo.one(lambda _: object(), ("b",)) is not first
