"""Lists that are followed: what is heard of changes, however the watch ends. Against a real server that answers so."""

import json
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest

from gpusharing.cli.reading import watching
from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.cluster import Ask
from gpusharing.cli.reading.kubeconfig import Access
from gpusharing.cli.reading.watching import Watched
from gpusharing.snapshots.world import NODE_SHARINGS
from harness.eventually import PATIENCE

ENDS: Final = None
"""The watch."""
GONE: Final = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}


def node(name: str, number: int = 0) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(number)}, "number": number}


@dataclass
class ApiServer:
    objects: list[Any] = field(default_factory=list)
    takes: str = ""
    """The only token, if any."""
    events: "queue.Queue[Any]" = field(default_factory=queue.Queue)
    asked: list[tuple[str, str]] = field(default_factory=list)
    """List or watch, and from which version."""
    url: str = ""


@pytest.fixture
def server() -> Iterator[ApiServer]:
    api = ApiServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            is_allowed = not api.takes or self.headers["Authorization"] == api.takes
            self.send_response(200 if is_allowed else 401)
            self.end_headers()
            if not is_allowed:
                self.wfile.write(b'{"message": "who are you?"}')
            elif "watch" in query:
                api.asked.append(("watch", query["resourceVersion"][0]))
                while (event := api.events.get()) is not ENDS:
                    self.wfile.write(json.dumps(event).encode() + b"\n")
            else:
                api.asked.append(("list", ""))
                head = {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "100"}}
                self.wfile.write(json.dumps(head | {"items": api.objects}, separators=(",", ":")).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        thread = threading.Thread(target=http.serve_forever, args=[0.01])
        thread.start()
        api.url = f"http://127.0.0.1:{http.server_port}"
        yield api
        api.events.put(ENDS)
        http.shutdown()
        thread.join()


@pytest.fixture
def client(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(watching, "_FIRST_DELAY", 0.01)
    with Client(Access(server.url, None)) as client:  # type: ignore[arg-type]
        yield client


@dataclass
class Heard:
    changes: list[tuple[Any, Any]] = field(default_factory=list)
    _new: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, old: Any, new: Any) -> None:
        with self._new:
            self.changes.append((old, new))
            self._new.notify_all()

    def until(self, is_so: Callable[[], bool]) -> None:
        with self._new:
            assert self._new.wait_for(is_so, PATIENCE), self.changes

    def take(self) -> list[tuple[Any, Any]]:
        """Of objects."""
        with self._new:
            found, self.changes = [one for one in self.changes if one != (None, None)], []
        return found


def follow(client: Client, heard: Heard) -> Watched:
    watched = Watched(client, Ask(NODE_SHARINGS), heard)
    assert watched.is_read.wait(PATIENCE)
    return watched


def change(kind: str, of: Any) -> dict[str, Any]:
    return {"type": kind, "object": of}


def test_what_comes_changes_and_goes(server: ApiServer, client: Client) -> None:
    a, b, later = node("a", 1), node("b", 2), node("a", 3)
    server.objects = [a]
    heard = Heard()
    watched = follow(client, heard)
    assert heard.take() == [(None, a)]
    for event in (change("ADDED", b), change("MODIFIED", later), change("DELETED", b)):
        server.events.put(event)
    heard.until(lambda: (b, None) in heard.changes)
    assert heard.take() == [(None, b), (a, later), (b, None)]
    assert watched.found().objects == [later]


def test_a_watch_goes_on_where_it_was(server: ApiServer, client: Client) -> None:
    heard = Heard()
    follow(client, heard)
    server.events.put(change("BOOKMARK", node("", 250)))
    server.events.put(ENDS)
    server.events.put(change("ADDED", node("a", 260)))
    heard.until(lambda: (None, node("a", 260)) in heard.changes)
    assert server.asked == [("list", ""), ("watch", "100"), ("watch", "250")]


def test_what_was_missed_is_heard_after_a_new_list(server: ApiServer, client: Client) -> None:
    a, b = node("a", 1), node("b", 2)
    server.objects = [a]
    heard = Heard()
    watched = follow(client, heard)
    heard.take()
    server.objects = [b]
    server.events.put(GONE)
    heard.until(lambda: (a, None) in heard.changes and (None, b) in heard.changes)
    assert watched.found().objects == [b]
    assert [one for one, _ in server.asked][:3] == ["list", "watch", "list"]


def test_a_line_that_is_none_is_a_problem_until_the_next_list(server: ApiServer, client: Client) -> None:
    heard = Heard()
    watched = follow(client, heard)
    server.events.put("no event")
    heard.until(lambda: watched.problem != "")
    heard.until(lambda: watched.problem == "")


def test_a_token_that_has_expired_is_renewed(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_FIRST_DELAY", 0.01)
    server.takes = "Bearer 1"
    tokens: list[str] = []

    def renew() -> Access:
        tokens.append(server.takes)
        return Access(server.url, None, server.takes)  # type: ignore[arg-type]

    heard = Heard()
    with Client(Access(server.url, None, "Bearer 0"), renew=renew) as client:  # type: ignore[arg-type]
        watched = follow(client, heard)
        server.takes = "Bearer 2"
        server.events.put(ENDS)
        server.events.put(change("ADDED", node("a", 5)))
        heard.until(lambda: (None, node("a", 5)) in heard.changes)
        assert watched.problem == ""
    assert tokens == ["Bearer 1", "Bearer 2"]


def test_it_ends_with_its_client(server: ApiServer) -> None:
    with Client(Access(server.url, None)) as client:  # type: ignore[arg-type]
        follow(client, Heard())
        thread = next(one for one in threading.enumerate() if one.name == "watch nodesharings")
    thread.join(PATIENCE)
    assert not thread.is_alive()
