"""Since when each kind is heard of, or not: who is deaf says so."""

from collections.abc import Callable
from typing import Any, Final

import structlog

from gpusharing.kube.clock import now, seconds_since_boot
from gpusharing.kube.kinds import Kind

log = structlog.get_logger(__name__)

DEAF_AFTER: Final = 30.0
"""Seconds. A watch that breaks and comes back, as when an API server is restarted, takes less."""


class DeafError(Exception):
    """What must be known cannot be read: another program may be able to."""


class Watch:
    """One watch of a kind: it works, or it has been broken since a moment, for a reason."""

    def __init__(self, kind: str, watches: "Watches") -> None:
        self.kind = kind
        self._watches = watches
        self._error = ""
        self._moment = ""
        self._broken_at: float | None = None

    @property
    def broken_for(self) -> float:
        """Seconds; 0 while it works."""
        return 0.0 if self._broken_at is None else seconds_since_boot() - self._broken_at

    def __str__(self) -> str:
        return f"{self.kind} cannot be watched since {self._moment}: {self._error}"

    def works(self) -> None:
        if self._broken_at is not None:
            log.info("watch works again", kind=self.kind, broken_for=round(self.broken_for, 1))
            self._watches.on_recovery()
        self._broken_at, self._error = None, ""

    def fails(self, error: str) -> None:
        if self._broken_at is None:
            self._broken_at, self._moment = seconds_since_boot(), now()
        if error != self._error:
            # Not each time that it is tried again.
            self._error = error
            log.warning("watch broken", kind=self.kind, since=self._moment, error=error)


class Watches:
    """All watches of a program."""

    def __init__(self) -> None:
        self._all: list[Watch] = []
        self.on_recovery: Callable[[], None] = lambda: None
        """When one works again: its API server was away, or another one answers."""

    def add(self, kind: Kind[Any]) -> Watch:
        watch = Watch(kind.kind, self)
        self._all.append(watch)
        return watch

    @property
    def worst(self) -> Watch | None:
        """What has been broken for the longest time."""
        return max((watch for watch in self._all if watch.broken_for), key=lambda watch: watch.broken_for, default=None)

    @property
    def deaf(self) -> Watch | None:
        """The worst, if it has been broken for so long that it will not pass by itself."""
        worst = self.worst
        return worst if worst and worst.broken_for > DEAF_AFTER else None

    def broken_for(self) -> dict[str, float]:
        """Seconds, by kind; 0 for those that work."""
        kinds = sorted({watch.kind for watch in self._all})
        return {kind: max(watch.broken_for for watch in self._all if watch.kind == kind) for kind in kinds}
