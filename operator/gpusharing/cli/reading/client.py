"""Requests to the API server, several at a time."""

import http.client
import json
import queue
import re
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode, urlsplit

from gpusharing import __version__
from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.kubeconfig import Access

PAGE: Final = 500
"""Objects of a page, as kubectl has it."""
_AT_ONCE: Final = 4
_TIMEOUT: Final = 60.0
_ATTEMPTS: Final = 3
_FIRST_DELAY: Final = 0.4
_TRY_LATER: Final = frozenset({429, 500, 502, 503, 504})
# The metadata of a list come before its items.
_HEAD: Final = 4096
_CONTINUE: Final = re.compile(rb'"continue":"([^"]+)"')


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

    def __init__(self, access: Access) -> None:
        self.access = access
        url = urlsplit(access.server)
        self._host, self._port = url.hostname or "", url.port
        self._root = url.path
        self._is_plain = url.scheme == "http"
        self._idle: queue.LifoQueue[http.client.HTTPConnection] = queue.LifoQueue()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="read")
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._threads.shutdown(cancel_futures=True)
        while not self._idle.empty():
            self._idle.get().close()

    def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        target = f"{path}?{urlencode(query)}" if query else path
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                status, data = self._ask(target)
            except (OSError, http.client.HTTPException) as error:
                if attempt == _ATTEMPTS or self._closed.is_set():
                    raise CommandError(f"no answer from {self.access.server}: {error}") from error
            else:
                if status < 300:
                    return data
                if attempt == _ATTEMPTS or status not in _TRY_LATER:
                    raise ReadError(path, status, _message(data))
            time.sleep(_FIRST_DELAY * 2 ** (attempt - 1))
        raise AssertionError("unreachable")

    def get_json(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        return _json(path, self.get(path, query))

    def send(self, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
        """A write. It is not tried again: nobody knows whether the first one was done."""
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            status, data = self._ask(target, method, body, self._new_connection())
        except (OSError, http.client.HTTPException) as error:
            raise CommandError(f"no answer from {self.access.server}: {error}") from error
        if status >= 300:
            raise ReadError(path, status, _message(data))
        return _json(path, data)

    def pages(self, path: str, query: Mapping[str, str] | None = None) -> Iterator[bytes]:
        """Of a list. The next page is on its way while one is decoded."""
        asked = {"limit": str(PAGE), **(query or {})}
        coming: Future[bytes] | None = self._threads.submit(self.get, path, asked)
        while coming is not None:
            data = coming.result()
            found = _CONTINUE.search(data, 0, _HEAD)
            coming = None
            if found:
                coming = self._threads.submit(self.get, path, {**asked, "continue": found[1].decode()})
            yield data

    def _ask(
        self, target: str, method: str = "GET", body: Any = None, connection: http.client.HTTPConnection | None = None
    ) -> tuple[int, bytes]:
        """`connection`: a new one for what must not be sent over one that the server may have closed."""
        connection = connection or self._connection()
        headers = {"Accept": "application/json", "User-Agent": f"gpusharing/{__version__}"}
        if self.access.authorization:
            headers["Authorization"] = self.access.authorization
        sent = None if body is None else json.dumps(body)
        if sent is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, self._root + target, body=sent, headers=headers)
            response = connection.getresponse()
            data = response.read()
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)
        return response.status, data

    def _connection(self) -> http.client.HTTPConnection:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return self._new_connection()

    def _new_connection(self) -> http.client.HTTPConnection:
        if self._is_plain:
            return http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT)
        return _Connection(self._host, self._port, self.access)


class _Connection(http.client.HTTPSConnection):
    """To a server whose certificate may be for another name."""

    def __init__(self, host: str, port: int | None, access: Access) -> None:
        super().__init__(host, port, timeout=_TIMEOUT, context=access.tls)
        self._access = access

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._access.tls.wrap_socket(self.sock, server_hostname=self._access.server_name or self.host)


def _json(path: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise CommandError(f"{path}: not an answer of an API server: {error}") from error


def _message(data: bytes) -> str:
    try:
        message: str = json.loads(data)["message"]
    except (ValueError, KeyError, TypeError):
        message = data[:200].decode(errors="replace").strip()
    return message
