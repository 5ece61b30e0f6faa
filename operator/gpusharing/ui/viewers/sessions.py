"""Who has signed in here. Tokens stay in memory: a browser gets a number that means nothing elsewhere."""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gpusharing.ui.viewers.tokens import digest

LONGEST: Final = 8 * 3600
"""Seconds."""
IDLE: Final = 3600
"""Seconds without a request: an open page asks all the time."""
MOST: Final = 256
MOST_OF_ONE: Final = 8
"""Browsers of one person."""


@dataclass(slots=True)
class Session:
    token: str = field(repr=False)
    name: str
    began: float
    seen: float

    def is_over(self, now: float) -> bool:
        return now >= self.began + LONGEST or now >= self.seen + IDLE


class Sessions:
    """Used by several threads."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: dict[bytes, Session] = {}
        """By the digest of their numbers."""

    def begin(self, token: str, name: str) -> str:
        """Its number, which nobody chooses."""
        number = secrets.token_urlsafe(32)
        with self._lock:
            self._forget_old()
            of_one = [key for key, session in self._sessions.items() if session.name == name]
            if len(of_one) >= MOST_OF_ONE:
                self._forget_oldest(of_one)
            elif len(self._sessions) >= MOST:
                self._forget_oldest(list(self._sessions))
            now = self._clock()
            self._sessions[digest(number)] = Session(token, name, now, now)
        return number

    def token(self, number: str) -> str | None:
        """Somebody uses the session. None: there is none of that number."""
        with self._lock:
            session = self._sessions.get(digest(number))
            now = self._clock()
            if session is None or session.is_over(now):
                return None
            session.seen = now
            return session.token

    def end(self, number: str) -> None:
        with self._lock:
            self._sessions.pop(digest(number), None)

    def forget_old(self) -> None:
        """Their tokens do not stay in memory."""
        with self._lock:
            self._forget_old()

    def _forget_old(self) -> None:
        now = self._clock()
        self._sessions = {key: session for key, session in self._sessions.items() if not session.is_over(now)}

    def _forget_oldest(self, keys: list[bytes]) -> None:
        del self._sessions[min(keys, key=lambda key: self._sessions[key].seen)]
