"""The server for one person's browser, on loopback.

Other users of the machine, and every page in the browser, can reach it. So the URL has a secret, the Host header must
be ours (a name of another site may resolve to 127.0.0.1), and a form must come from this page.
"""

import hmac
import secrets
from http import HTTPStatus
from typing import Final

from gpusharing.ui.exchange import Admitted, Head, RefusedError, Site
from gpusharing.ui.server import Server

LOOPBACK: Final = "127.0.0.1"
LARGEST_FORM: Final = 1024 * 1024
"""Bytes. A policy has a few hundred."""
CONNECTIONS: Final = 48
STREAMS: Final = 16
"""Of these: each open page of the browser has one."""


class LoopbackServer(Server):
    site: Site

    def __init__(self, *, port: int = 0) -> None:
        """`port`: 0 takes a free one. Raises OSError."""
        self.secret = secrets.token_urlsafe(16)
        super().__init__((LOOPBACK, port), connections=CONNECTIONS, streams=STREAMS)

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost"))

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}{root(self.secret)}/"

    def admit(self, head: Head) -> Admitted:
        if head.headers.get("host") not in self.hosts:
            raise RefusedError(HTTPStatus.MISDIRECTED_REQUEST, f"this server is {' or '.join(sorted(self.hosts))}")
        first, *rest = head.path
        if not hmac.compare_digest(first.encode(), self.secret.encode()):
            raise RefusedError(HTTPStatus.FORBIDDEN, "open the URL that `gpusharing ui` has printed")
        return Admitted(self.site, tuple(rest), LARGEST_FORM)

    def is_of_our_page(self, origin: str, host: str) -> bool:  # noqa: ARG002 (`admit` has looked at it)
        return origin in {f"http://{one}" for one in self.hosts}


def root(secret: str) -> str:
    """What stands before every path."""
    return f"/{secret}"
