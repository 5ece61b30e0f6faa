"""One thin HTTP transport to the API server, for operator and agent: canonical JSON, checked answers, honest errors."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, TypeVar
from weakref import WeakSet

import aiohttp

from gpusharing.api import strict_json
from gpusharing.api.meta import Identity
from gpusharing.kube.credentials import Credentials
from gpusharing.kube.history import History
from gpusharing.kube.kinds import Kind, Page, decode_identities

T = TypeVar("T")
R = TypeVar("R")

REQUEST_TIMEOUT: Final = 30.0
# As JSON, objects take several times what is kept of them, and a process does not give back the most that it ever took.
PAGE_SIZE: Final = 200
_IDENTITIES: Final = 500
# The API server ends a watch by itself; a bookmark comes each minute. What is silent for longer may be a dead
# connection, or a watch from a version that the server has not come to.
WATCH_SILENCE: Final = 75.0
WATCH_LENGTH: Final = 290

_ATTEMPTS: Final = 4
_FIRST_DELAY: Final = 0.2
_JSON: Final = "application/json"
_METADATA_ONLY: Final = f"{_JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_TRY_LATER: Final = frozenset({429, 500, 502, 503, 504})


class ApiError(Exception):
    """What the API server said, with the verb and the object it was said of."""

    def __init__(self, verb: str, path: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{verb} {path}: {status} {reason}: {message}")
        self.verb = verb
        self.path = path
        self.status = status
        self.reason = reason
        self.message = message


class UnreachableError(Exception):
    """No answer from the API server, or none that can be read."""


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
        # Large objects come as one line of a watch.
        read_bufsize=2**21,
    )


class Api:
    def __init__(self, session: aiohttp.ClientSession, server: str, *, user_agent: str) -> None:
        self._session = session
        self._server = server.rstrip("/")
        self._headers = {"User-Agent": user_agent, "Accept": _JSON}
        self.history = History()

    async def get_json(self, path: str) -> Any:
        """What is not an object: the version, or what is served."""
        return await self._request(strict_json.loads, "GET", path, retry=True)

    async def get(self, kind: Kind[T], name: str, namespace: str = "") -> T:
        return await self._request(kind.decode, "GET", kind.path(name, namespace), retry=True)

    def pages(self, kind: Kind[T], *, field_selector: str = "") -> AsyncIterator[Page[T]]:
        """All objects of a kind, page by page; the last page has the version to watch from."""
        return self._pages(kind.decode_page, kind.path(), field_selector=field_selector)

    async def identities(self, kind: Kind[Any]) -> tuple[list[Identity], str]:
        """Which objects of a kind there are, in which versions, and the version of this list."""
        items: list[Identity] = []
        version = ""
        async for page in self._pages(decode_identities, kind.path(), accept=_METADATA_ONLY, size=_IDENTITIES):
            items += page.items
            version = page.resource_version
        return items, version

    async def confirm_history(self, kind: Kind[Any], *, field_selector: str = "") -> None:
        """HistoryWentBackError if the API server does not have the history any more that was seen. Also, watches of
        the kind hear bookmarks after it, whatever changes: the server has found out how new its own copy is."""
        query = _query(limit="1", fieldSelector=field_selector)
        await self._page(decode_identities, kind.path(), query, accept=_METADATA_ONLY)

    async def _pages(
        self,
        decode: Callable[[bytes], Page[R]],
        path: str,
        *,
        field_selector: str = "",
        accept: str = _JSON,
        size: int = PAGE_SIZE,
    ) -> AsyncIterator[Page[R]]:
        token = ""
        while True:
            query = _query(limit=str(size), fieldSelector=field_selector, **{"continue": token})
            page = await self._page(decode, path, query, accept=accept)
            token = page.continue_token
            yield page
            # Otherwise it would stay until the next one is there.
            del page
            if not token:
                return

    async def _page(
        self, decode: Callable[[bytes], Page[R]], path: str, query: Mapping[str, str], *, accept: str
    ) -> Page[R]:
        seen = self.history.highest(path)
        page = await self._request(decode, "GET", path, query, accept=accept, retry=True)
        if "continue" not in query:
            # Later pages are as of the first one.
            self.history.listed(path, page.resource_version, after=seen)
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

    async def replace(self, kind: Kind[T], name: str, body: Mapping[str, Any], namespace: str = "") -> T:
        # Not sent twice either: the second would meet the resourceVersion of the first and fail with a conflict that
        # nobody caused.
        return await self._request(kind.decode, "PUT", kind.path(name, namespace), body=_typed(kind, body))

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
        """Events (type, object as JSON) from a version on, until the server ends the watch, or is silent."""
        is_open = False
        query = _query(
            watch="1",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            timeoutSeconds=str(WATCH_LENGTH + random.randrange(60)),  # noqa: S311 (spreads reconnects)
            fieldSelector=field_selector,
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
                async for line in response.content:
                    event, value = _decoded(_event, "WATCH", kind.path(), line)
                    if event == "ERROR":
                        raise _watch_error(kind.path(), value)
                    yield event, value
        except aiohttp.SocketTimeoutError as error:
            if not is_open:
                raise UnreachableError(f"WATCH {kind.path()}: {type(error).__name__}: {error}") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UnreachableError(f"WATCH {kind.path()}: {type(error).__name__}: {error}") from error

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
                ) as response:
                    if response.status < 300:
                        return _decoded(decode, verb, path, await response.read())
                    error = await _error(verb, path, response)
                    # 429 comes before anything was done, so every verb may try again.
                    if last or not (response.status == 429 or (retry and response.status in _TRY_LATER)):
                        raise error
                    wait = max(wait, _retry_after(response))
            except (aiohttp.ClientError, TimeoutError) as problem:
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
    except ValueError as error:
        # A proxy's page, say, whatever its status is.
        problem = str(error).partition("\n")[0]
        raise UnreachableError(f"{verb} {path}: an answer that cannot be read: {problem}") from error


def _event(line: bytes) -> tuple[str, Any]:
    match strict_json.loads(line):
        case {"type": str(event), "object": dict(value)}:
            return event, value
    raise ValueError("not an event")


def _retry_after(response: aiohttp.ClientResponse) -> float:
    """Seconds. Proxies may send a date; and nobody waits for longer than for an answer."""
    value = response.headers.get("Retry-After", "")
    return min(float(value), REQUEST_TIMEOUT) if value.isdecimal() else 0


async def _error(verb: str, path: str, response: aiohttp.ClientResponse) -> ApiError:
    text = (await response.read()).decode(errors="replace")
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
