"""What was made last, for as long as it would be made of the same things."""

from gpusharing.core.memo import Kept


def test_only_what_is_made_of_other_things_is_made_anew() -> None:
    kept: Kept[tuple[int], str] = Kept()
    made: list[int] = []

    def make(of: tuple[int]) -> str:
        made.append(of[0])
        return f"of {of[0]}"

    assert kept.all(make, {"a": (1,), "b": (2,)}) == ["of 1", "of 2"]
    assert kept.all(make, {"b": (3,), "a": (1,)}) == ["of 3", "of 1"]
    assert made == [1, 2, 3]
    # What was not asked for is forgotten.
    kept.all(make, {"b": (3,)})
    kept.all(make, {"a": (1,)})
    assert made == [1, 2, 3, 1]


def test_what_is_known_to_be_as_it_was_is_not_asked_for() -> None:
    kept: Kept[tuple[int], str] = Kept()
    made: list[int] = []

    def make(of: tuple[int]) -> str:
        made.append(of[0])
        return f"of {of[0]}"

    kept.all(make, {"a": (1,), "b": (2,), "c": (3,)})
    assert kept.some(make, {"b": (4,), "c": (3,)}) == ["of 1", "of 4", "of 3"]
    assert kept.some(make, {"d": (5,)}, gone=["a", "unknown"]) == ["of 4", "of 3", "of 5"]
    assert made == [1, 2, 3, 4, 5]
    # What has gone is made anew when it comes back.
    assert kept.all(make, {"a": (1,), "b": (4,)}) == ["of 1", "of 4"]
    assert made[5:] == [1]


def test_they_come_in_the_order_in_which_they_are_asked_for() -> None:
    kept: Kept[tuple[int], int] = Kept()
    kept.all(lambda of: of[0], {"a": (1,), "b": (2,)})
    assert kept.all(lambda of: of[0], {"b": (2,), "a": (1,)}) == [2, 1]
