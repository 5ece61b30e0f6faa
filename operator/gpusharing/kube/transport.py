"""One thin HTTP transport to the API server, for operator and agent: canonical JSON, checked answers, honest errors."""

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit
from weakref import WeakSet

import aiohttp
import pydantic
from aiohttp.http import HttpProcessingError

from gpusharing.api import strict_json
from gpusharing.api.meta import Identity
from gpusharing.kube import reading
from gpusharing.kube.credentials import Credentials
from gpusharing.kube.history import History
from gpusharing.kube.kinds import Kind, Page, decode_identities, decode_page, decode_page_head, require_identity
from gpusharing.kube.reading import LARGEST_OBJECT, Part
from gpusharing.kube.unreadable import Unreadables, display_name

T = TypeVar("T")
R = TypeVar("R")

REQUEST_TIMEOUT: Final = 30.0
# As JSON, objects take several times what is kept of them, and a process does not give back the most that it ever took.
PAGE_SIZE: Final = 200
_IDENTITIES: Final = 500
# A page that has more bytes is asked for again with fewer objects.
PAGE_BYTES: Final = 4 * 2**20
_LARGEST_ERROR: Final = 2**16
# The API server ends a watch by itself; a bookmark comes each minute. What is silent for longer may be a dead
# connection, or a watch from a version that the server has not come to.
WATCH_SILENCE: Final = 75.0
WATCH_LENGTH: Final = 290

_ATTEMPTS: Final = 4
_FIRST_DELAY: Final = 0.2
_JSON: Final = "application/json"
_METADATA_ONLY: Final = f"{_JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_TRY_LATER: Final = frozenset({429, 500, 502, 503, 504})
# What aiohttp's parser says of bytes that are no HTTP is not always one of its client errors.
_NETWORK: Final = (aiohttp.ClientError, HttpProcessingError, TimeoutError)


class ApiError(Exception):
    """What the API server said, with the verb and the object it was said of."""

    def __init__(self, verb: str, path: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{verb} {path}: {status} {reason}: {message}")
        self.verb = verb
        self.path = path
        self.status = status
        self.reason = reason
        self.message = message


class UnreadableError(ApiError):
    """An answer whose object cannot be read. To ask again is of no use until the object has changed."""

    def __init__(self, verb: str, path: str, message: str, *, head: bytes = b"") -> None:
        super().__init__(verb, path, 200, "Unreadable", message)
        self.head = head
        """Of an answer that is too long: its beginning."""


class UnreachableError(Exception):
    """No answer from the API server, or one that is no JSON."""


class ExpiredError(Exception):
    """A watch cannot go on from where it was: list again."""


class _Connector(aiohttp.TCPConnector):
    """Ends every connection when it is closed.

    aiohttp forgets those whose answers, such as watches, were not read to the end: they wait for TLS's good-bye from
    the other side, and a loop that ends meanwhile leaks them.
    """

    def __init__(self, *, ssl: ssl.SSLContext, limit: int) -> None:
        super().__init__(ssl=ssl, limit=limit)
        self._unread: WeakSet[asyncio.Transport] = WeakSet()

    def remember(self, response: aiohttp.ClientResponse) -> None:
        if response.connection and response.connection.transport:
            self._unread.add(response.connection.transport)

    async def close(self, *, abort_ssl: bool = True) -> None:
        for transport in self._unread:
            transport.abort()
        await super().close(abort_ssl=abort_ssl)


def open_session(
    credentials: Credentials, *middlewares: aiohttp.ClientMiddlewareType, connections: int = 100
) -> aiohttp.ClientSession:
    """A session that authorizes each of its requests, whoever makes them. Each watch takes one of the connections for
    itself, and each of them 0.3 MiB."""

    async def authorize(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        try:
            value = await credentials.authorization()
        except OSError as error:
            raise aiohttp.ClientConnectionError(f"no credentials: {error}") from error
        if value:
            request.headers["Authorization"] = value
        try:
            response = await handler(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            # On these two aiohttp would send a PUT again by itself: what is sent twice is decided below.
            raise aiohttp.ClientConnectionError(f"{type(error).__name__}: {error}") from error
        connector.remember(response)
        return response

    connector = _Connector(ssl=credentials.ssl, limit=connections)
    return aiohttp.ClientSession(
        connector=connector,
        middlewares=(*middlewares, authorize),
        read_bufsize=2**18,
    )


class Api:
    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: str,
        *,
        user_agent: str,
        unreadables: Unreadables | None = None,
        certified_for: str | None = None,
    ) -> None:
        """`certified_for`: the name in the server's certificate, where it is not the one in its URL."""
        self._session = session
        self._server = server.rstrip("/")
        self._user_agent = user_agent
        self._certified_for = certified_for
        self._headers = {"User-Agent": user_agent, "Accept": _JSON}
        self.history = History()
        self.unreadables = unreadables or Unreadables()
        """What lists and watches have skipped."""

    def at(self, server: str) -> "Api":
        """Another server of the same API: all of them have certificates for the same names."""
        name = self._certified_for or urlsplit(self._server).hostname
        return Api(self._session, server, user_agent=self._user_agent, certified_for=name)

    async def get_json(self, path: str) -> Any:
        """What is not an object, such as the version or what is served, or a list that is short."""
        return await self._request(strict_json.loads, "GET", path, retry=True)

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        return await self._request(kind.decode, "GET", kind.path(name, namespace), retry=True)

    def pages(self, kind: Kind[T], *, field_selector: str = "") -> AsyncIterator[Page[T]]:
        """All objects of a kind, page by page; the last page has the version to watch from."""

        def decode(data: bytes) -> Page[T]:
            page = decode_page(data)
            return Page(tuple(self._readable(kind, page.items)), page.resource_version, page.continue_token)

        return self._pages(decode, kind, field_selector, size=PAGE_SIZE)

    def _readable(self, kind: Kind[T], items: Iterable[Any]) -> Iterator[T]:
        for item in items:
            try:
                value = kind.from_json(item)
            except ValueError as error:
                self.unreadables.skip(kind.kind, display_name(item), error)
            else:
                yield value

    async def identities(self, kind: Kind[Any]) -> tuple[list[Identity], str]:
        """Which objects of a kind there are, in which versions, and the version of this list."""
        items: list[Identity] = []
        version = ""
        async for page in self._pages(decode_identities, kind, "", accept=_METADATA_ONLY, size=_IDENTITIES):
            items += page.items
            version = page.resource_version
        return items, version

    async def confirm_history(self, kind: Kind[Any], *, field_selector: str = "") -> None:
        """HistoryWentBackError if the API server does not have the history any more that was seen. Also, watches of
        the kind hear bookmarks after it, whatever changes: the server has found out how new its own copy is."""
        pages = self._pages(decode_identities, kind, field_selector, accept=_METADATA_ONLY, size=1)
        async with contextlib.aclosing(pages):
            await anext(pages)

    async def _pages(
        self,
        decode: Callable[[bytes], Page[R]],
        kind: Kind[Any],
        field_selector: str,
        *,
        accept: str = _JSON,
        size: int,
    ) -> AsyncGenerator[Page[R]]:
        token, limit = "", size
        while True:
            seen = self.history.highest(kind.path())
            selectors = {"fieldSelector": field_selector, "labelSelector": kind.label}
            query = _query(limit=str(limit), **selectors, **{"continue": token})
            most = PAGE_BYTES if limit > 1 else LARGEST_OBJECT
            try:
                data = await self._request(bytes, "GET", kind.path(), query, accept=accept, retry=True, most=most)
                page = _decoded(decode, "GET", kind.path(), data)
            except UnreadableError as error:
                if limit > 1:
                    limit //= 2
                    continue
                page = self._without_its_object(kind, error)
            else:
                if len(data) < PAGE_BYTES // 4:
                    limit = min(2 * limit, size)
                # Otherwise they would stay until the next page is there.
                del data
            if not token:
                # Later pages are as of the first one.
                self.history.listed(kind.path(), page.resource_version, after=seen)
            token = page.continue_token
            yield page
            del page
            if not token:
                return

    def _without_its_object(self, kind: Kind[Any], error: UnreadableError) -> Page[Any]:
        """A page of one object that is too large."""
        try:
            page = decode_page_head(error.head)
        except ValueError:
            raise error from None
        self.unreadables.skip(kind.kind, reading.name_in(error.head.partition(b'"items"')[2]), error.message)
        return page

    async def list(self, kind: Kind[T], *, field_selector: str = "") -> tuple[list[T], str]:
        """All objects of a kind, and the version to watch from."""
        items: list[T] = []
        version = ""
        async for page in self.pages(kind, field_selector=field_selector):
            items += page.items
            version = page.resource_version
        return items, version

    async def create(self, kind: Kind[T], body: Mapping[str, Any], namespace: str = "") -> T:
        # Never sent twice: the first one may have been stored although no answer came.
        return await self._request(kind.decode, "POST", kind.path(namespace=namespace), body=_typed(kind, body))

    async def try_create(self, kind: Kind[Any], body: Mapping[str, Any], namespace: str = "") -> None:
        """ApiError if it would be refused. Nothing is created."""
        query = {"dryRun": "All"}
        await self._request(bytes, "POST", kind.path(namespace=namespace), query, body=_typed(kind, body))

    async def replace(self, kind: Kind[T], name: str, body: Mapping[str, Any], namespace: str = "") -> T:
        # Not sent twice either: the second would meet the resourceVersion of the first and fail with a conflict that
        # nobody caused.
        return await self._request(kind.decode, "PUT", kind.path(name, namespace), body=_typed(kind, body))

    async def put(self, kind: Kind[Any], name: str, body: Mapping[str, Any]) -> None:
        """Replaces an object of which the watch tells what has become of it: the answer has its metadata only."""
        accept = f"{_JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        await self._request(bytes, "PUT", kind.path(name), body=_typed(kind, body), accept=accept)

    async def merge_patch(
        self, kind: Kind[T], name: str, patch: Mapping[str, Any], *, namespace: str = "", subresource: str = ""
    ) -> T:
        path = kind.path(name, namespace, subresource)
        content_type = "application/merge-patch+json"
        return await self._request(kind.decode, "PATCH", path, body=patch, content_type=content_type)

    async def delete(self, kind: Kind[T], name: str, *, uid: str, namespace: str = "") -> None:
        """Deletes exactly this object; that it is gone already is success."""
        try:
            body = {"preconditions": {"uid": uid}}
            await self._request(bytes, "DELETE", kind.path(name, namespace), body=body, retry=True)
        except ApiError as error:
            if error.status != 404:
                raise

    async def watch(
        self,
        kind: Kind[T],
        resource_version: str,
        *,
        field_selector: str = "",
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[tuple[str, Any]]:
        """Events (type, object as JSON) from a version on, until the server ends the watch, or is silent. Those are
        left out whose objects cannot be told from others."""
        is_open = False
        query = _query(
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=str(WATCH_LENGTH + random.randrange(60)),  # noqa: S311 (spreads reconnects)
            fieldSelector=field_selector,
            labelSelector=kind.label,
        )
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_TIMEOUT, sock_read=WATCH_SILENCE)
        try:
            async with self._session.get(
                self._server + kind.path(), params=query, headers=self._headers, timeout=timeout
            ) as response:
                if response.status != 200:
                    raise await _error("WATCH", kind.path(), response)
                is_open = True
                on_open()
                async for line in reading.lines(response.content.iter_any()):
                    if (event := self._event(kind, line)) is None:
                        continue
                    if event[0] == "ERROR":
                        raise _watch_error(kind.path(), event[1])
                    yield event
        except aiohttp.SocketTimeoutError as error:
            if not is_open:
                raise UnreachableError(f"WATCH {kind.path()}: {type(error).__name__}: {error}") from error
        except _NETWORK as error:
            raise UnreachableError(f"WATCH {kind.path()}: {type(error).__name__}: {error}") from error

    def _event(self, kind: Kind[Any], line: Part) -> tuple[str, Any] | None:
        if not line.is_whole:
            self.unreadables.skip(kind.kind, reading.name_in(line.data), _too_large(LARGEST_OBJECT))
            return None
        match _decoded(strict_json.loads, "WATCH", kind.path(), line.data):
            case {"type": "ERROR" | "BOOKMARK" as type_, "object": dict(value)}:
                return type_, value
            case {"type": str(type_), "object": value}:
                try:
                    require_identity(value)
                except ValueError as error:
                    self.unreadables.skip(kind.kind, display_name(value), error)
                    return None
                return type_, value
            case _:
                self.unreadables.skip(kind.kind, "?", "not an event")
                return None

    async def _request(
        self,
        decode: Callable[[bytes], R],
        verb: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: Mapping[str, Any] | None = None,
        content_type: str = _JSON,
        accept: str = _JSON,
        retry: bool = False,
        most: int = LARGEST_OBJECT,
    ) -> R:
        headers = self._headers | {"Accept": accept} | ({"Content-Type": content_type} if body is not None else {})
        data = strict_json.canonical(body) if body is not None else None
        delay = _FIRST_DELAY
        for attempt in range(1, _ATTEMPTS + 1):
            last = attempt == _ATTEMPTS
            wait = delay * random.uniform(0.5, 1.5)  # noqa: S311
            try:
                async with self._session.request(
                    verb,
                    self._server + path,
                    params=query,
                    data=data,
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT),
                    server_hostname=self._certified_for,
                ) as response:
                    if response.status < 300:
                        answer = await reading.read(response.content.iter_any(), most)
                        if not answer.is_whole:
                            raise UnreadableError(verb, path, _too_large(most), head=answer.data)
                        return _decoded(decode, verb, path, answer.data)
                    error = await _error(verb, path, response)
                    # 429 comes before anything was done, so every verb may try again.
                    if last or not (response.status == 429 or (retry and response.status in _TRY_LATER)):
                        raise error
                    wait = max(wait, _retry_after(response))
            except _NETWORK as problem:
                if last or not retry:
                    raise UnreachableError(f"{verb} {path}: {type(problem).__name__}: {problem}") from problem
            await asyncio.sleep(wait)
            delay *= 2
        raise AssertionError("unreachable")


def _typed(kind: Kind[T], body: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}


def _query(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


def _decoded(decode: Callable[[bytes], R], verb: str, path: str, data: bytes) -> R:
    try:
        return decode(data)
    except pydantic.ValidationError as error:
        raise UnreadableError(verb, path, str(error).partition("\n")[0]) from error
    except ValueError as error:
        # A proxy's page, say, whatever its status is.
        raise UnreachableError(f"{verb} {path}: an answer that cannot be read: {error}") from error


def _too_large(most: int) -> str:
    return f"has more than {most // 2**20} MiB as JSON"


def _retry_after(response: aiohttp.ClientResponse) -> float:
    """Seconds. Proxies may send a date; and nobody waits for longer than for an answer."""
    value = response.headers.get("Retry-After", "")
    return min(float(value), REQUEST_TIMEOUT) if value.isdecimal() else 0


async def _error(verb: str, path: str, response: aiohttp.ClientResponse) -> ApiError:
    text = (await reading.read(response.content.iter_any(), _LARGEST_ERROR)).data.decode(errors="replace")
    try:
        status = strict_json.loads(text)
        reason, message = status.get("reason", ""), status.get("message", "")
    except (ValueError, AttributeError):
        # Not from the API server itself: a proxy's page, say.
        reason, message = response.reason or "", text[:500]
    return ApiError(verb, path, response.status, reason, message)


def _watch_error(path: str, status: Mapping[str, Any]) -> Exception:
    message = status.get("message", "")
    if status.get("code") == 410:
        return ExpiredError(f"WATCH {path}: {message}")
    return ApiError("WATCH", path, int(status.get("code", 0)), status.get("reason", ""), message)
