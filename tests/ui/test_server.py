"""Who may ask, how much, and what each answer carries: raw requests to the real server."""

import http.client
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from typing import Final

import pytest

from gpusharing.ui.exchange import HEADERS, Answer, Request
from gpusharing.ui.loopback import CONNECTIONS, LARGEST_FORM, STREAMS, LoopbackServer
from harness.eventually import PATIENCE
from ui.fleets import example
from ui.serving import Changing, served

FORM: Final = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    with served(Changing(example())) as server:
        yield server


def ask(
    server: LoopbackServer,
    path: str,
    *,
    verb: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Mapping[str, str], str]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)) as connection:
        connection.request(verb, path, body, {"Host": f"127.0.0.1:{server.server_port}", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, dict(answer.headers), answer.read().decode()


def path(server: LoopbackServer, rest: str = "") -> str:
    return f"/{server.secret}/{rest}"


def test_it_listens_on_loopback_only(server: LoopbackServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}/", server.url)


@pytest.mark.parametrize("rest", ["", "static/ui.css", "gpu/node-0/gpu-0", "nothing", "static/../server.py"])
def test_nothing_without_the_secret(server: LoopbackServer, rest: str) -> None:
    for wrong in (f"/{rest}", f"/{'x' * len(server.secret)}/{rest}", f"/{server.secret[:-1]}/{rest}"):
        status, headers, text = ask(server, wrong)
        assert (status, "gpusharing ui" in text) == (403, True)
        assert HEADERS.items() <= headers.items()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""])
def test_a_name_that_leads_here_is_refused(server: LoopbackServer, host: str) -> None:
    """DNS rebinding: a page of another site resolves its own name to 127.0.0.1."""
    status, _, text = ask(server, path(server), headers={"Host": host.format(port=server.server_port)})
    assert (status, "all-modes" in text) == (421, False)


def test_localhost_is_a_name_of_ours(server: LoopbackServer) -> None:
    assert ask(server, path(server), headers={"Host": f"localhost:{server.server_port}"})[0] == 200


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1:1"]
)
def test_a_form_of_another_page_is_refused(server: LoopbackServer, origin: str | None) -> None:
    headers = FORM | ({"Origin": origin.format(port=server.server_port)} if origin else {})
    status, _, text = ask(server, path(server, "plan"), verb="POST", body=b"policy=x", headers=headers)
    assert (status, "was not sent by the page" in text) == (403, True)


def ours(server: LoopbackServer) -> dict[str, str]:
    return FORM | {"Origin": f"http://127.0.0.1:{server.server_port}"}


@pytest.mark.parametrize(
    ("body", "more", "status"),
    [
        (b"", {"Content-Length": str(LARGEST_FORM + 1)}, 413),
        (b"", {"Content-Length": "99999999999999999999"}, 413),
        (b"", {"Content-Length": "9" * 5000}, 413),
        (b"", {"Content-Length": "-1"}, 411),
        (b"", {"Content-Length": "many"}, 411),
        (b"&".join(b"a%d=1" % number for number in range(9)), {}, 400),
        (b"policy=a%3A%20%5B", {}, 422),
        (b"\xff\xfe", {}, 422),
    ],
)
def test_forms_are_bounded(server: LoopbackServer, body: bytes, more: dict[str, str], status: int) -> None:
    found, headers, _ = ask(server, path(server, "plan"), verb="POST", body=body, headers=ours(server) | more)
    assert found == status
    assert HEADERS.items() <= headers.items()


@pytest.mark.parametrize("verb", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading(server: LoopbackServer, verb: str) -> None:
    assert ask(server, path(server), verb=verb)[0] == 501


@pytest.mark.parametrize(
    "rest",
    [
        "nothing",
        "static/nothing",
        "static/..%2f..%2fserver.py",
        "static/vendored.toml",
        "gpu/node-0/gpu-9",
        "gpu/node-9/gpu-0",
        "gpu",
        "pod/ml",
        "pod/ml/nobody",
        "policy/nothing",
        "node/" + "x" * 3000,
        "gpu/" + "%2e%2e/" * 20,
    ],
)
def test_what_is_not_there(server: LoopbackServer, rest: str) -> None:
    assert ask(server, path(server, rest))[0] == 404


def test_every_answer_has_the_headers(server: LoopbackServer) -> None:
    for rest in ("", "static/ui.css", "static/htmx.min.js", "static/icon.svg", "gpu/node-0/gpu-0", "history"):
        status, headers, _ = ask(server, path(server, rest))
        assert status == 200
        assert HEADERS.items() <= headers.items()
    allowed = HEADERS["Content-Security-Policy"].split("; ")
    assert "default-src 'none'" in allowed
    assert "unsafe" not in str(allowed)


@pytest.mark.parametrize("query", ["q=" + "x" * 5000, "page=99999999", "page=-1", "page=x", "show=nothing", "q=%00%ff"])
def test_queries_of_any_kind(server: LoopbackServer, query: str) -> None:
    assert ask(server, path(server, f"?{query}"))[0] == 200


def test_a_page_loads_from_here_alone(server: LoopbackServer) -> None:
    _, _, text = ask(server, path(server))
    urls = re.findall(r'(?:src|href|action|hx-get|hx-post|sse-connect)="([^"]*)"', text)
    assert urls
    assert [one for one in urls if not one.startswith((f"/{server.secret}/", "#"))] == []
    assert not re.search(r"<script[^>]*>[^<]|\sstyle=|\son\w+=", text)


def test_streams_are_bounded_and_free_again(server: LoopbackServer) -> None:
    with ExitStack() as stack:
        for _ in range(STREAMS):
            stack.enter_context(stream(server))
        assert ask(server, path(server, "events"))[0] == 503
        assert ask(server, path(server))[0] == 200
    server.site._source.become(example())  # type: ignore[attr-defined]
    deadline = time.monotonic() + PATIENCE
    while ask_head(server) != 200:
        assert time.monotonic() < deadline
        server.site._source.become(example())  # type: ignore[attr-defined]


def stream(server: LoopbackServer) -> closing[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    connection.request("GET", path(server, "events"), headers={"Host": f"127.0.0.1:{server.server_port}"})
    assert connection.getresponse().status == 200
    return closing(connection)


def ask_head(server: LoopbackServer) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    with closing(connection):
        connection.request("GET", path(server, "events"), headers={"Host": f"127.0.0.1:{server.server_port}"})
        return connection.getresponse().status


def test_connections_that_say_next_to_nothing_make_room() -> None:
    """Without the secret: of another user of the machine."""
    with served(Changing(example())) as one, ExitStack() as stack:
        before = threading.active_count()
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", one.server_port))) for _ in range(CONNECTIONS)
        ]
        deadline = time.monotonic() + PATIENCE
        answered = 0
        while answered < 3:
            assert time.monotonic() < deadline
            for each in silent:
                with suppress(OSError):
                    each.sendall(b"G")
            assert threading.active_count() <= before + CONNECTIONS
            with suppress(OSError, http.client.HTTPException):
                answered += ask(one, path(one))[0] == 200


def test_what_comes_after_a_break_is_what_was_missed(server: LoopbackServer) -> None:
    """An EventSource that comes back says up to where it has read."""
    number = server.site._source.picture().number  # type: ignore[attr-defined]
    for last, has_all in ((str(number), False), ("0", True), ("nonsense", True)):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
        with closing(connection):
            headers = {"Host": f"127.0.0.1:{server.server_port}", "Last-Event-ID": last}
            connection.request("GET", path(server, "events"), headers=headers)
            first = connection.getresponse().readline()
        assert (first == f"id: {number}\n".encode()) is has_all, (last, first)


def test_a_fault_of_ours_costs_one_page(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken:
        def answer(self, request: Request) -> Answer:
            raise RuntimeError(f"cannot draw {request.path}")

    with served(Changing(example())) as one:
        site, one.site = one.site, Broken()
        status, headers, text = ask(one, path(one))
        one.site = site
        assert ask(one, path(one))[0] == 200
    assert (status, "cannot draw" in text) == (500, False)
    assert HEADERS.items() <= headers.items()
    assert "cannot draw" in capsys.readouterr().err
