"""What Prometheus and agents answer: also others in their place."""

import json
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.agent.metrics import catalogue
from gpusharing.agent.metrics.exposition import Reading, exposition
from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading import agents, prometheus
from gpusharing.occupancy.usage import Name, Sample

CLAIM = {"claim_uid": "u", "device": "gpu-0"}


def answer(*samples: tuple[str, Mapping[str, str], str]) -> bytes:
    result = [{"metric": {"__name__": name} | dict(labels), "value": [1.5, value]} for name, labels, value in samples]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    status = 200
    body = b""
    location = ""
    piece = 1 << 20
    pause = 0.0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str | None]] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        for piece in range(0, len(self.server.body), self.server.piece):
            self.wfile.write(self.server.body[piece : piece + self.server.piece])
            time.sleep(self.server.pause)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name in the standard library)
        pass


@contextmanager
def server() -> Iterator[Server]:
    with Server() as found:
        threading.Thread(target=found.serve_forever, args=(0.01,), daemon=True).start()
        yield found
        found.shutdown()


def test_samples_that_are_numbers_are_read() -> None:
    with server() as found:
        found.body = answer((Name.CLAIM_MEMORY, CLAIM, "1024"), (Name.GPU_UTILIZATION, {"UUID": "g"}, "nonsense"))
        url = f"http://127.0.0.1:{found.server_port}/prometheus/"
        assert prometheus.read(url) == [Sample(Name.CLAIM_MEMORY, {"__name__": Name.CLAIM_MEMORY, **CLAIM}, 1024.0)]
        [(path, authorization)] = found.asked
        assert path.startswith("/prometheus/api/v1/query?query=")
        assert authorization is None


def test_a_password_is_sent_and_goes_nowhere_else() -> None:
    with server() as first, server() as second:
        first.status, first.location = 302, f"http://localhost:{second.server_port}/api/v1/query"
        second.body = answer()
        assert prometheus.read(f"http://jane:p%40ss@127.0.0.1:{first.server_port}") == []
        assert first.asked[0][1] == f"Basic {b64encode(b'jane:p@ss').decode()}"
        assert [authorization for _, authorization in second.asked] == [None]


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        (b"<html>", 200, "answers something else"),
        (b'{"data":{"result":[{"metric":7}]}}', 200, "answers something else"),
        (b'{"status":"error","error":"bad"}', 200, "answers something else"),
        (b"", 500, "does not answer: HTTP Error 500"),
    ],
)
def test_others_in_place_of_prometheus(body: bytes, status: int, problem: str) -> None:
    with server() as found:
        found.body, found.status = body, status
        with pytest.raises(CommandError, match=problem):
            prometheus.read(f"http://127.0.0.1:{found.server_port}")


def test_an_answer_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_LONGEST", 1000)
    with server() as found:
        found.body = b" " * 1001
        with pytest.raises(CommandError, match="has more than"):
            prometheus.read(f"http://127.0.0.1:{found.server_port}")


def test_an_answer_that_never_pauses_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_TIMEOUT", 0.5)
    with server() as found:
        found.body, found.piece, found.pause = answer() + b" " * 20, 8, 0.2
        with pytest.raises(CommandError, match="does not answer"):
            prometheus.read(f"http://127.0.0.1:{found.server_port}")


@pytest.mark.parametrize("url", ["localhost:9090", "file:///etc/passwd", "ftp://x", "http://", ""])
def test_no_url(url: str) -> None:
    with pytest.raises(CommandError, match="not a URL such as"):
        prometheus.read(url)


@given(
    st.lists(st.tuples(*[st.text(max_size=8)] * len(catalogue.CLAIM_MEMORY_USED.labels)), max_size=4, unique=True),
    st.floats(0, 1e15),
)
def test_pages_of_agents(labels: list[tuple[str, ...]], value: float) -> None:
    """As agents write them, whatever the names are."""
    families = [
        Reading(metric, lambda: dict.fromkeys(labels, value))
        for metric in (catalogue.CLAIM_MEMORY_USED, catalogue.CLAIM_DEVICE_INFO, catalogue.CLAIM_SM_UTILIZATION)
    ]
    found = list(agents.samples_of(exposition(families[::2]).decode()))
    assert [one.name for one in found] == [name for name in (Name.CLAIM_MEMORY, Name.CLAIM_UTILIZATION) for _ in labels]
    assert all(one.value == value for one in found)
    plain = [one for one in labels if all(text.isalnum() for text in one)]
    for one in plain:
        assert (
            Sample(Name.CLAIM_MEMORY, dict(zip(catalogue.CLAIM_MEMORY_USED.labels, one, strict=True)), value) in found
        )


@pytest.mark.parametrize(
    "page",
    [
        f"{Name.CLAIM_MEMORY}{{\n" * 1500,
        f'{Name.CLAIM_MEMORY}{{a="\n' * 1500,
        f"{Name.CLAIM_MEMORY}{{{'a' * 40_000}}} 1\n",
        f"{Name.CLAIM_MEMORY}{{{'a=' * 40_000}}} 1\n",
    ],
    ids=["no end of labels", "no end of a value", "a long name", "no values"],
)
def test_pages_that_mean_harm_take_no_time(page: str) -> None:
    """Who may create pods may give them the label of an agent."""
    start = time.process_time()
    assert [one for one in agents.samples_of(page) if one.labels] == []
    assert time.process_time() - start < 1
    assert len(list(agents.samples_of(f'{page}\n{Name.CLAIM_MEMORY}{{claim_uid="u",device="d"}} 1'))) >= 1


def test_names_are_those_of_the_agents() -> None:
    assert {Name.CLAIM_MEMORY, Name.CLAIM_UTILIZATION} <= {metric.name for metric in catalogue.ALL}
    for metric in (catalogue.CLAIM_MEMORY_USED, catalogue.CLAIM_SM_UTILIZATION):
        assert {"claim_uid", "device"} <= set(metric.labels)
