"""Whose a token is: the API server is asked, again and again, because tokens expire and are withdrawn."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple

from gpusharing.ui.exchange import RefusedError
from gpusharing.ui.picture import SourceError
from gpusharing.ui.viewers.tokens import UnknownTokenError, digest, expiry, is_token

ASKED_EVERY: Final = 60.0
_BELIEVED: Final = 600.0
"""Seconds, while the API server does not answer: then nobody can read anything new."""
_MOST: Final = 512
_AT_ONCE: Final = 4
_PATIENCE: Final = 5.0


class _Known(NamedTuple):
    name: str
    asked_at: float
    expiry: float


class Identities:
    """Used by several threads."""

    def __init__(self, ask: Callable[[str], str], *, clock: Callable[[], float] = time.time) -> None:
        """`ask` raises UnknownTokenError and SourceError."""
        self._ask = ask
        self._clock = clock
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._lock = threading.Lock()
        self._asking = threading.BoundedSemaphore(_AT_ONCE)
        """Who tries tokens keeps the API server as busy as a few people do."""

    def is_known(self, token: str) -> bool:
        """Without asking."""
        known = self._find(token)
        return known is not None and self._clock() < known.expiry

    def name(self, token: str) -> str:
        """Raises UnknownTokenError, and SourceError and RefusedError if nobody can say it now."""
        known = self._find(token)
        now = self._clock()
        if known is not None and now < min(known.asked_at + ASKED_EVERY, known.expiry):
            return known.name
        if not is_token(token) or now >= (end := expiry(token) or float("inf")):
            self._forget(token)
            raise UnknownTokenError
        try:
            name = self._asked(token)
        except UnknownTokenError:
            self._forget(token)
            raise
        except (SourceError, RefusedError):
            if known is not None and now < known.asked_at + _BELIEVED:
                return known.name
            raise
        with self._lock:
            self._known[digest(token)] = _Known(name, now, end)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return name

    def _asked(self, token: str) -> str:
        if not self._asking.acquire(timeout=_PATIENCE):
            raise RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "too many people sign in; try again")
        try:
            return self._ask(token)
        finally:
            self._asking.release()

    def _find(self, token: str) -> _Known | None:
        with self._lock:
            key = digest(token)
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def _forget(self, token: str) -> None:
        with self._lock:
            self._known.pop(digest(token), None)
