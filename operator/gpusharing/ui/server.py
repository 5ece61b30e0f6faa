"""An HTTP server for one person's browser, on loopback.

Other users of the machine, and every page in the browser, can reach it. So the URL has a secret, the Host header must
be ours (a name of another site may resolve to 127.0.0.1), a form must come from this page, and what a connection costs
is bounded: in bytes, in time and in number.
"""

import hmac
import secrets
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from gpusharing import __version__
from gpusharing.ui.exchange import HEADERS, Answer, Request, Site

LOOPBACK: Final = "127.0.0.1"
LARGEST_FORM: Final = 1024 * 1024
"""Bytes. A policy has a few hundred."""
CONNECTIONS: Final = 48
STREAMS: Final = 16
"""Of these: each open page of the browser has one."""
_PATIENCE: Final = 10.0
"""Seconds for which one side waits for the other."""
_LONGEST_SILENCE: Final = 2.0
"""Seconds in which a browser has shown the secret, where others wait."""
_MOST_FIELDS: Final = 8
_DIGITS: Final = 9


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = CONNECTIONS

    site: Site

    def __init__(self, *, port: int = 0) -> None:
        """`port`: 0 takes a free one. Raises OSError."""
        self.secret = secrets.token_urlsafe(16)
        self.connections = threading.BoundedSemaphore(CONNECTIONS)
        self.streams = threading.BoundedSemaphore(STREAMS)
        self._open: set[socket.socket] = set()
        self._unknown: dict[socket.socket, float] = {}
        """Those that have not shown the secret, and since when they are open."""
        super().__init__((LOOPBACK, port), _Handler)

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost"))

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}{root(self.secret)}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.connections.acquire(blocking=False):
            # The browser tries again, and by then there is room.
            self.shutdown_request(request)
            self._make_room()
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.connections.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        self._unknown[request] = time.monotonic()
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.discard(request)
            self.is_known(request)
            self.connections.release()

    def is_known(self, connection: socket.socket) -> None:
        """It has shown the secret."""
        self._unknown.pop(connection, None)

    def _make_room(self) -> None:
        """Who sends one byte now and then does not keep others out."""
        # A copy, because connections come and go meanwhile.
        oldest = min(list(self._unknown.items()), key=lambda one: one[1], default=None)
        if oldest is not None and time.monotonic() > oldest[1] + _LONGEST_SILENCE:
            _shut_down(oldest[0])

    def server_close(self) -> None:
        """Browsers see at once that nobody is there any more."""
        super().server_close()
        for one in list(self._open):
            _shut_down(one)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves is no error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def root(secret: str) -> str:
    """What stands before every path."""
    return f"/{secret}"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = f"gpusharing/{__version__}"
    sys_version = ""
    timeout = _PATIENCE

    def do_GET(self) -> None:
        request = self._request()
        if request is not None:
            self._answer(request)

    def do_POST(self) -> None:
        request = self._request()
        if request is None:
            return
        if self.headers.get("Origin") not in {f"http://{host}" for host in self.server.hosts}:
            self._refuse(HTTPStatus.FORBIDDEN, "this form was not sent by the page")
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "a form has a Content-Length")
            return
        if len(length) > _DIGITS or int(length) > LARGEST_FORM:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"larger than {LARGEST_FORM // 1024} KiB")
            return
        text = self.rfile.read(int(length)).decode(errors="replace")
        try:
            form = dict(parse_qsl(text, max_num_fields=_MOST_FIELDS))
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, f"more than {_MOST_FIELDS} fields")
            return
        self._answer(
            Request(path=request.path, query=request.query, form=form, wants_part=request.wants_part),
        )

    def _request(self) -> Request | None:
        if self.headers.get("Host") not in self.server.hosts:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, f"this server is {' or '.join(sorted(self.server.hosts))}")
            return None
        try:
            target = urlsplit(self.path)
            query = dict(parse_qsl(target.query, max_num_fields=_MOST_FIELDS))
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, "not a URL of this page")
            return None
        first, *rest = [unquote(part) for part in target.path.removeprefix("/").split("/")]
        if not hmac.compare_digest(first.encode(), self.server.secret.encode()):
            self._refuse(HTTPStatus.FORBIDDEN, "open the URL that `gpusharing ui` has printed")
            return None
        self.server.is_known(self.connection)
        return Request(
            path=tuple(rest),
            query=query,
            wants_part=self.headers.get("HX-Request") == "true",
            last_event=self.headers.get("Last-Event-ID", ""),
        )

    def _answer(self, request: Request) -> None:
        try:
            answer = self.server.site.answer(request)
        except Exception:  # noqa: BLE001 (an object that we do not understand costs one page)
            traceback.print_exc()
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "the terminal of `gpusharing ui` says why")
            return
        if isinstance(answer.body, bytes):
            self._send(answer, answer.body)
        elif self.server.streams.acquire(blocking=False):
            try:
                self._stream(answer)
            finally:
                self.server.streams.release()
        else:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, f"more than {STREAMS} pages are open")

    def _send(self, answer: Answer, body: bytes) -> None:
        self._head(answer, {"Content-Length": str(len(body))})
        self.wfile.write(body)

    def _stream(self, answer: Answer) -> None:
        self._head(answer, {})
        # Small pieces are sent at once.
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        for piece in answer.body:
            self.wfile.write(piece)  # type: ignore[arg-type]
            self.wfile.flush()

    def _head(self, answer: Answer, more: dict[str, str]) -> None:
        self.close_connection = True
        self.send_response(answer.status)
        for name, value in {"Content-Type": answer.content_type, "Connection": "close", **HEADERS, **more}.items():
            self.send_header(name, value)
        self.end_headers()

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        body = f"{status.value} {status.phrase}: {why}\n".encode()
        self._send(Answer(body=body, status=status, content_type="text/plain; charset=utf-8"), body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class refuses, with our headers."""
        self._refuse(HTTPStatus(code), message or explain or "")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class has called it so)
        """Nothing: the terminal is a person's."""
