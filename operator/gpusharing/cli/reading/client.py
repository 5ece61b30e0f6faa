"""GET requests to the API server, several at a time."""

import http.client
import json
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode, urlsplit

from gpusharing import __version__
from gpusharing.api import strict_json
from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.kubeconfig import Access
from gpusharing.findings.printable import printable

PAGE: Final = 500
"""Objects of a page, as kubectl has it."""
_LONGEST_LINE: Final = 12 * 1024 * 1024
"""Bytes. Kubernetes' objects have at most 3 MiB."""
_AT_ONCE: Final = 4
_TIMEOUT: Final = 60.0
_ATTEMPTS: Final = 3
_FIRST_DELAY: Final = 0.4
_LONGEST_MESSAGE: Final = 1000
_TRY_LATER: Final = frozenset({429, 500, 502, 503, 504})
# The metadata of a list come before its items, and of a list of custom resources after them. What is between is not
# looked at: people may write there what looks like it.
_AROUND: Final = 8192
_BEFORE: Final = re.compile(rb'\{"kind":"[^"]*","apiVersion":"[^"]*","metadata":(\{[^{}]*\})')
_AFTER: Final = re.compile(rb'"kind":"[^"]*","metadata":(\{[^{}]*\})\}\s*\Z')


class ReadError(Exception):
    """The API server's refusal."""

    def __init__(self, path: str, status: int, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.status = status
        self.message = message

    @property
    def is_forbidden(self) -> bool:
        return self.status in {401, 403}

    @property
    def is_absent(self) -> bool:
        return self.status == 404


class Client:
    """Used by several threads. Raises ReadError, and CommandError if there is no answer."""

    def __init__(self, access: Access, *, renew: Callable[[], Access] | None = None) -> None:
        """`renew`: identifies us again, when the API server does not take the former token any more."""
        self.access = access
        self._renew = renew
        self._renewing = threading.Lock()
        url = urlsplit(access.server)
        self._host, self._port = url.hostname or "", url.port
        self._root = url.path
        self._is_plain = url.scheme == "http"
        self._idle: queue.LifoQueue[http.client.HTTPConnection] = queue.LifoQueue()
        self._streams: set[socket.socket] = set()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="read")
        self.closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closed.set()
        self._threads.shutdown(cancel_futures=True)
        for stream in list(self._streams):
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
        while not self._idle.empty():
            self._idle.get().close()

    def get(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        attempts: int = _ATTEMPTS,
        timeout: float = _TIMEOUT,
        most: int | None = None,
    ) -> bytes:
        """`most`: no more bytes than these are read, and no longer than the timeout, whoever sends them."""
        target = f"{path}?{urlencode(query)}" if query else path
        for attempt in range(1, attempts + 1):
            used = self.access
            try:
                status, data = self._ask(target, timeout, most)
            except (OSError, http.client.HTTPException) as error:
                if attempt == attempts or self.closed.is_set():
                    raise CommandError(f"no answer from {self.access.server}: {error}") from error
            else:
                if status < 300:
                    return data
                if status == HTTPStatus.UNAUTHORIZED and attempt == 1 and self._is_renewed(used):
                    continue
                if attempt == attempts or status not in _TRY_LATER:
                    raise ReadError(path, status, _message(data))
            time.sleep(_FIRST_DELAY * 2 ** (attempt - 1))
        raise AssertionError("unreachable")

    def get_json(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        return _json(path, self.get(path, query))

    def send(self, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
        """A write. It is not tried again: nobody knows whether the first one was done. Its connection is its own,
        because the server may have closed one that was used before."""
        target = f"{self._root}{path}?{urlencode(query)}" if query else self._root + path
        connection = self._new_connection(_TIMEOUT)
        try:
            headers = {**self._headers(), "Content-Type": "application/json"}
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise CommandError(f"no answer from {self.access.server}: {error}") from error
        finally:
            connection.close()
        if response.status >= 300:
            raise ReadError(path, response.status, _message(data))
        return _json(path, data)

    def pages(self, path: str, query: Mapping[str, str] | None = None) -> Iterator[bytes]:
        """Of a list. The next page is on its way while one is decoded."""
        asked = {"limit": str(PAGE), **(query or {})}
        coming: Future[bytes] | None = self._threads.submit(self.get, path, asked)
        while coming is not None:
            data = coming.result()
            more = metadata(data).get("continue")
            coming = self._threads.submit(self.get, path, {**asked, "continue": more}) if more else None
            yield data

    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[bytes]:
        """Of an answer that goes on. It ends when the server, or a connection that was lost, ends it."""
        used, connection = self.access, self._connection(_TIMEOUT)
        if connection.sock is None:
            connection.connect()
        stream = connection.sock
        self._streams.add(stream)
        try:
            # Who closes the client ends the streams that are open by then.
            if self.closed.is_set():
                return
            connection.request("GET", f"{self._root}{path}?{urlencode(query)}", headers=self._headers())
            response = connection.getresponse()
            if response.status == HTTPStatus.UNAUTHORIZED and self._is_renewed(used):
                return
            if response.status >= 300:
                raise ReadError(path, response.status, _message(response.read()))
            while line := response.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE:
                    raise ReadError(path, response.status, f"a line of more than {_LONGEST_LINE // 1024**2} MiB")
                yield line
        finally:
            self._streams.discard(stream)
            connection.close()

    def _ask(self, target: str, timeout: float, most: int | None) -> tuple[int, bytes]:
        connection = self._connection(timeout)
        try:
            connection.request("GET", self._root + target, headers=self._headers())
            response = connection.getresponse()
            data = response.read() if most is None else some_of(response, most, timeout)
        except BaseException:
            connection.close()
            raise
        if response.isclosed():
            self._idle.put(connection)
        else:
            connection.close()
        return response.status, data

    def _is_renewed(self, used: Access) -> bool:
        """`used`: what was refused. Another thread may have renewed it."""
        if self._renew is None:
            return False
        with self._renewing:
            if self.access is used:
                self.access = self._renew()
                while not self._idle.empty():
                    self._idle.get_nowait().close()
        return True

    def _headers(self) -> Mapping[str, str]:
        headers = {"Accept": "application/json", "User-Agent": f"gpusharing/{__version__}"}
        if self.access.authorization:
            headers["Authorization"] = self.access.authorization
        return headers

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            return self._new_connection(timeout)
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        return connection

    def _new_connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._is_plain:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        return _Connection(self._host, self._port, self.access, timeout)


def metadata(page: bytes) -> Mapping[str, Any]:
    """Of a list, without decoding its items."""
    found = _BEFORE.match(page, 0, _AROUND) or _AFTER.search(page, max(len(page) - _AROUND, 0))
    return dict(json.loads(found[1])) if found else {}


class _Connection(http.client.HTTPSConnection):
    """To a server whose certificate may be for another name."""

    def __init__(self, host: str, port: int | None, access: Access, timeout: float) -> None:
        super().__init__(host, port, timeout=timeout, context=access.tls)
        self._access = access

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._access.tls.wrap_socket(self.sock, server_hostname=self._access.server_name or self.host)


def some_of(response: http.client.HTTPResponse, most: int, within: float) -> bytes:
    """Raises TimeoutError, also if there is never a pause that is as long."""
    end = time.monotonic() + within
    found = bytearray()
    while len(found) < most and (piece := response.read1(most - len(found))):
        found += piece
        if time.monotonic() > end:
            raise TimeoutError(f"not complete after {within:.0f} s")
    return bytes(found)


def decoded(data: bytes) -> Any:
    """Raises ValueError. Who creates claims may write what Python would not read: it must not hide all the others."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return strict_json.loads(data)


def _json(path: str, data: bytes) -> Any:
    try:
        return decoded(data)
    except ValueError as error:
        raise CommandError(f"{path}: not an answer of an API server: {error}") from error


def _message(data: bytes) -> str:
    """Of the API server; or of a pod that it asks for us, which may be anybody's."""
    try:
        message = str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        message = data.decode(errors="replace").strip()
    return printable(message[:_LONGEST_MESSAGE])
