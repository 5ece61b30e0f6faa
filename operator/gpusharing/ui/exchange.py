"""A request to the page, and its answer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, Protocol

HTML: Final = "text/html; charset=utf-8"
EVENTS: Final = "text/event-stream; charset=utf-8"

# Nothing but what this server sends is loaded, run or asked; no other page may frame this one. The referrer stays here:
# with `no-referrer` a browser would not say either from where a form was sent.
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    path: tuple[str, ...]
    """Behind the secret, decoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] | None = None
    """None: nothing was sent."""
    wants_part: bool = False
    """htmx asks, and puts the answer into the page."""
    last_event: str = ""
    """Up to which a stream of events was read before it broke."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    body: bytes | Iterable[bytes]
    """An Iterable is a stream: it ends when one of both sides ends it."""
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = HTML


class Site(Protocol):
    def answer(self, request: Request) -> Answer: ...
