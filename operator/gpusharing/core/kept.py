"""What was made last, for as long as it would be made of the same things."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T", bound=tuple[object, ...])
V = TypeVar("V")


class Kept(Generic[T, V]):
    """Of one node, by GPU or by claim: most of them are what they were when one of them changes."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[str, tuple[T, V]] = {}

    def all(self, make: Callable[[T], V], of: Mapping[str, T]) -> list[V]:
        """What `make` makes of these things and of nothing else. What is not asked for any more is forgotten."""
        before, self._made = self._made, {}
        all_made = []
        for key, things in of.items():
            known = before.get(key)
            # Tuples look first whether they hold the very same objects, which most are, and next time more of them.
            made = known[1] if known is not None and known[0] == things else make(things)
            self._made[key] = things, made
            all_made.append(made)
        return all_made
