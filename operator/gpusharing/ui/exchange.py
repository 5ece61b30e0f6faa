"""A request to the page, who may ask, and the answer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import BoundedSemaphore
from typing import Final, NamedTuple, Protocol

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
class Head:
    """What comes before a form."""

    path: tuple[str, ...]
    """Decoded."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By their names in lower case. None that says who asks, or for whom, comes twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    path: tuple[str, ...]
    """Below the root, decoded."""
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
    headers: tuple[tuple[str, str], ...] = ()
    """More of them."""
    streams: BoundedSemaphore | None = None
    """Of a stream: how many there may be, if that is not the same for all."""


class Site(Protocol):
    def answer(self, request: Request) -> Answer: ...


class Admitted(NamedTuple):
    """Somebody who may ask."""

    site: Site
    path: tuple[str, ...]
    """Below the root."""
    largest_form: int
    """Bytes."""


class RefusedError(Exception):
    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status
