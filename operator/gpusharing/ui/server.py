"""An HTTP server for browsers: what a connection costs is bounded, in bytes, in time and in number.

Who may ask is said by those who inherit from it: `LoopbackServer` for one person, `ViewersServer` for all of a cluster.
"""

import socket
import ssl
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from gpusharing import __version__
from gpusharing.ui.exchange import HEADERS, Admitted, Answer, Head, RefusedError, Request
from gpusharing.ui.heads import BoundedHead, headers_of

_PATIENCE: Final = 10.0
"""Seconds for which one side waits for the other."""
_LONGEST_SILENCE: Final = 2.0
"""Seconds in which a browser has sent its request, where others wait."""
_LONGEST_REQUEST: Final = 60.0
"""The same where nobody waits."""
_MOST_FIELDS: Final = 8
_DIGITS: Final = 9
_TEXT: Final = "text/plain; charset=utf-8"


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        *,
        connections: int,
        streams: int,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        """Raises OSError. `streams`: of these connections. `tls`: of the moment, because certificates are renewed."""
        self.connections = threading.BoundedSemaphore(connections)
        self.streams = threading.BoundedSemaphore(streams)
        self.request_queue_size = connections
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._unheard: dict[socket.socket, float] = {}
        """Those that have not sent all of a request, and since when they are open."""
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Without asking DNS for a name, which nobody needs."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def admit(self, head: Head) -> Admitted:
        """Raises RefusedError."""
        raise NotImplementedError

    def is_of_our_page(self, origin: str, host: str) -> bool:
        """Of the browser that sends a form."""
        raise NotImplementedError

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.connections.acquire(blocking=False):
            # The browser tries again, and by then there is room.
            self.shutdown_request(request)
            self._end_unheard(_LONGEST_SILENCE)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.connections.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            if self._tls is not None:
                # They greet each other when the first byte is read, and no longer than that may take.
                request = self._tls().wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            self._open.add(request)
            self._unheard[request] = time.monotonic()
            super().process_request_thread(request, client_address)
        finally:
            self._open.discard(request)
            self.is_heard(request)
            self.connections.release()

    def is_heard(self, connection: socket.socket) -> None:
        """It has sent all of its request."""
        self._unheard.pop(connection, None)

    def service_actions(self) -> None:
        self._end_unheard(_LONGEST_REQUEST)

    def _end_unheard(self, patience: float) -> None:
        """Who sends one byte now and then does not keep others out."""
        # A copy, because connections come and go meanwhile.
        oldest = min(list(self._unheard.items()), key=lambda one: one[1], default=None)
        if oldest is not None and time.monotonic() > oldest[1] + patience:
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
        # Of TLS, too: another thread reads it.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = f"gpusharing/{__version__}"
    sys_version = ""
    timeout = _PATIENCE

    def setup(self) -> None:
        super().setup()
        self._bounded = BoundedHead(self.rfile)  # type: ignore[arg-type]
        self.rfile = self._bounded  # type: ignore[assignment]

    def do_GET(self) -> None:
        self._respond(has_form=False)

    def do_POST(self) -> None:
        self._respond(has_form=True)

    def _respond(self, *, has_form: bool) -> None:
        try:
            head = self._head()
            admitted = self.server.admit(head)
            form = self._form(head, admitted.largest_form) if has_form else None
        except RefusedError as error:
            self._refuse(error.status, str(error))
            return
        self.server.is_heard(self.connection)
        request = Request(
            path=admitted.path,
            query=head.query,
            form=form,
            wants_part=head.headers.get("hx-request") == "true",
            last_event=head.headers.get("last-event-id", ""),
        )
        self._answer(request, admitted)

    def _head(self) -> Head:
        headers = headers_of(self.headers)
        if headers is None or self._bounded.has_controls:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "not a request of a browser")
        try:
            target = urlsplit(self.path)
            query = dict(parse_qsl(target.query, max_num_fields=_MOST_FIELDS))
        except ValueError as error:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "not a URL of this page") from error
        path = tuple(unquote(part) for part in target.path.removeprefix("/").split("/"))
        return Head(path=path, query=query, headers=headers)

    def _form(self, head: Head, largest: int) -> Mapping[str, str]:
        if not self.server.is_of_our_page(head.headers.get("origin", ""), head.headers.get("host", "")):
            raise RefusedError(HTTPStatus.FORBIDDEN, "this form was not sent by the page")
        length = head.headers.get("content-length", "")
        if not length.isdecimal():
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "a form has a Content-Length")
        if len(length) > _DIGITS or int(length) > largest:
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"larger than {largest // 1024} KiB")
        text = self.rfile.read(int(length)).decode(errors="replace")
        try:
            return dict(parse_qsl(text, max_num_fields=_MOST_FIELDS))
        except ValueError as error:
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"more than {_MOST_FIELDS} fields") from error

    def _answer(self, request: Request, admitted: Admitted) -> None:
        try:
            answer = admitted.site.answer(request)
        except RefusedError as error:
            self._refuse(error.status, str(error))
            return
        except Exception:  # noqa: BLE001 (an object that we do not understand costs one page)
            traceback.print_exc()
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "the output of `gpusharing` says why")
            return
        if isinstance(answer.body, bytes):
            self._send(answer, answer.body)
        elif (streams := answer.streams or self.server.streams).acquire(blocking=False):
            try:
                self._stream(answer)
            finally:
                streams.release()
        else:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many pages are open")

    def _send(self, answer: Answer, body: bytes) -> None:
        self._begin(answer, {"Content-Length": str(len(body))})
        self.wfile.write(body)

    def _stream(self, answer: Answer) -> None:
        self._begin(answer, {})
        # Small pieces are sent at once.
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        for piece in answer.body:
            self.wfile.write(piece)  # type: ignore[arg-type]
            self.wfile.flush()

    def _begin(self, answer: Answer, more: dict[str, str]) -> None:
        self.close_connection = True
        self.send_response(answer.status)
        headers = {"Content-Type": answer.content_type, "Connection": "close", **HEADERS, **more}
        for name, value in (*headers.items(), *answer.headers):
            self.send_header(name, value)
        self.end_headers()

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        body = f"{status.value} {status.phrase}: {why}\n".encode()
        self._send(Answer(body=body, status=status, content_type=_TEXT), body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class refuses, with our headers."""
        self._refuse(HTTPStatus(code), message or explain or "")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class has called it so)
        """Nothing: the terminal is a person's, and URLs are nobody's business."""
