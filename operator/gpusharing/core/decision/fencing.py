"""What the closing guard is to refuse on all nodes, and what of that is known to be in force."""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from gpusharing.api import names
from gpusharing.api.core import ValidatingAdmissionPolicy
from gpusharing.core.cluster.guards import closing_upkeep
from gpusharing.core.cluster.guards.closing import CLOSING
from gpusharing.core.cluster.guards.closing_upkeep import FenceDecision
from gpusharing.core.cluster.guards.upkeep import Bindings, Guards
from gpusharing.core.intents import Intent
from gpusharing.core.memo import Memo
from gpusharing.core.state.fence import Closed, Closing, Fence
from gpusharing.core.timestamps import seconds


class Fencing:
    def __init__(self, idle_wait: float) -> None:
        self._idle_wait: Final = idle_wait
        self._closing: dict[str, Closing] = {}
        """By node."""
        self._decision = FenceDecision()
        self._written: Final[Memo[tuple[ValidatingAdmissionPolicy], closing_upkeep.Written]] = Memo()
        self._has_to_decide = True
        self._void: Fence | None = None
        """What was seen before the guard was missing."""
        self.stored: Fence = {}
        """What the guard has, whether it is in force yet or not; nothing while the guard is missing."""
        self.in_force: Fence | None = None
        """What was seen to hold on all API servers, and has not been taken out since. None: the guard is missing."""

    @property
    def intents(self) -> Collection[Intent]:
        return self._decision.intents

    @property
    def until(self) -> float | None:
        """The moment, in seconds since 1970, from which time alone changes something."""
        return self._decision.until

    def put(self, node: str, closing: Closing) -> None:
        """What is to be closed on a node; nothing of one that has gone."""
        if closing != self._closing.get(node, {}):
            self._has_to_decide = True
            if closing:
                self._closing[node] = closing
            else:
                del self._closing[node]

    def look(self, guards: Guards, bindings: Bindings, seen: Fence) -> set[str] | None:
        """After a guard has changed, or was `seen` to hold. The nodes of which the guard has something else now, or
        something else is in force; None: all, as the guard has gone or come, and whoever waits says so."""
        self._has_to_decide = True
        before, stored = self.in_force, self.stored
        written = self._read(guards, bindings)
        self.stored = written or {}
        if written is None:
            # Should it come back, it has to be seen again.
            self._void = seen
            self.in_force = None
        else:
            self.in_force = {} if seen is self._void else still_in_force(seen, written)
        if before is None or self.in_force is None:
            return set() if before is self.in_force else None
        return {
            names.node_of_pool(pool)
            for one, other in ((before, self.in_force), (stored, self.stored))
            for pool in one.keys() | other.keys()
            if one.get(pool) != other.get(pool)
        }

    def decide(self, guards: Guards, bindings: Bindings, *, now: str) -> None:
        if self._has_to_decide or (self.until is not None and self.until <= seconds(now)):
            # A pool belongs to one node.
            closing = {pool: report for node in self._closing.values() for pool, report in node.items()}
            self._decision = closing_upkeep.update_fence(
                closing, guards, bindings, self._decision, idle_wait=self._idle_wait, now=now
            )
            self._has_to_decide = False

    def _read(self, guards: Guards, bindings: Bindings) -> Fence | None:
        if not closing_upkeep.holds(guards, bindings):
            return None
        return self._written.one(lambda things: closing_upkeep.read(things[0]), (guards[CLOSING],)).fence


def still_in_force(seen: Fence, written: Fence) -> Fence:
    """What was taken out and put in again has another `since`."""
    kept: dict[str, tuple[Closed, ...]] = {}
    for pool, records in seen.items():
        there = {(one.since, item) for one in written.get(pool, ()) for item in one.items}
        still = [replace(one, items=tuple(item for item in one.items if (one.since, item) in there)) for one in records]
        kept[pool] = tuple(one for one in still if one.items)
    return {pool: records for pool, records in kept.items() if records}
