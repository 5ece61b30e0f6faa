"""A decision that is made at once, as the loop asks for it."""

from collections.abc import Iterator, Sequence

from gpusharing.core.decision.incremental import Decider
from gpusharing.core.intents import Intent


class OneStep:
    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._pending: Sequence[Intent] = ()

    def steps(self, *, now: str) -> Iterator[None]:
        self._pending = self._decider.decide(now=now)
        yield

    def fold_statuses(self, *, now: str) -> None:
        """Has happened with the decision."""

    @property
    def pending(self) -> Sequence[Intent]:
        return self._pending

    def next_in(self, *, now: str) -> float | None:
        return self._decider.next_in(now=now)
