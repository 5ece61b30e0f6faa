"""What was made last, for as long as it would be made of the same things."""

from collections.abc import Callable, Iterable, Mapping
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
        self._put(before, make, of)
        return self._values()

    def some(self, make: Callable[[T], V], of: Mapping[str, T], *, gone: Iterable[str] = ()) -> list[V]:
        """The same, where of all others is known that they are what they were."""
        for key in gone:
            self._made.pop(key, None)
        self._put(self._made, make, of)
        return self._values()

    def _put(self, known: Mapping[str, tuple[T, V]], make: Callable[[T], V], of: Mapping[str, T]) -> None:
        for key, things in of.items():
            last = known.get(key)
            # Tuples look first whether they hold the very same objects, which most are, and next time more of them.
            self._made[key] = things, last[1] if last is not None and last[0] == things else make(things)

    def _values(self) -> list[V]:
        return [made for _, made in self._made.values()]
