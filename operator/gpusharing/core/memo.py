"""Results that are made again only when what they are made of has changed."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T", bound=tuple[object, ...])
V = TypeVar("V")


class Memo(Generic[T, V]):
    """Of one node, by GPU or by claim: when one of them changes, the others mostly do not."""

    __slots__ = ("_made",)

    def __init__(self) -> None:
        self._made: dict[str, tuple[T, V]] = {}

    def map(self, make: Callable[[T], V], inputs: Mapping[str, T]) -> list[V]:
        """`make` of each input, in their order. Inputs that are not asked for any more are forgotten."""
        before, self._made = self._made, {}
        for key, things in inputs.items():
            last = before.get(key)
            # Comparing tuples asks first whether the items are the same objects, which most are.
            self._made[key] = things, last[1] if last is not None and last[0] == things else make(things)
        return [made for _, made in self._made.values()]

    def one(self, make: Callable[[T], V], things: T) -> V:
        return self.map(make, {"": things})[0]
