"""How commands read: pages, troubles on the way, and rights that are missing. Against a real server that answers so."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gpusharing.api import names
from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading import agents
from gpusharing.cli.reading import client as client_module
from gpusharing.cli.reading.client import Client, ReadError
from gpusharing.cli.reading.cluster import Ask, decode_list, read, read_minor
from gpusharing.cli.reading.examination import read_cluster, read_installation
from gpusharing.cli.reading.installed import installed_in
from gpusharing.cli.reading.kubeconfig import access
from gpusharing.cli.reading.together import find, get
from gpusharing.snapshots import file, lines
from gpusharing.snapshots.anonymous import anonymous
from gpusharing.snapshots.lean import lean
from gpusharing.snapshots.lines import Lines
from gpusharing.snapshots.pseudonyms import Pseudonyms
from gpusharing.snapshots.world import CLAIMS, NODE_SHARINGS, NODES, PODS, TAINT_RULES, Resource, World

BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/gpusharing-agent"
VERSION = {"major": "1", "minor": "37", "gitVersion": "v1.37.1"}


@dataclass
class Server:
    url: str = ""
    objects: dict[str, list[Any]] = field(default_factory=dict)
    """By path: lists are given out two at a time."""
    single: dict[str, Any] = field(default_factory=dict)
    """By path."""
    refused: dict[str, int] = field(default_factory=dict)
    troubles: list[int] = field(default_factory=list)
    """Statuses of the next answers, whatever is asked."""
    trouble: Any = field(default_factory=lambda: {"message": "not now"})
    asked: list[str] = field(default_factory=list)
    version: dict[str, str] = field(default_factory=lambda: dict(VERSION))

    def answer(self, target: str) -> tuple[int, Any]:
        self.asked.append(target)
        url = urlsplit(target)
        query = parse_qs(url.query)
        if self.troubles:
            return self.troubles.pop(0), self.trouble
        if url.path in self.refused:
            return self.refused[url.path], {"message": f"{url.path} is refused"}
        if url.path == "/version":
            return 200, self.version
        if url.path in self.single:
            return 200, self.single[url.path]
        if url.path not in self.objects:
            return 404, {"message": "not found"}
        start = int(query.get("continue", ["0"])[0])
        items = self.objects[url.path]
        rest = str(start + 2) if start + 2 < len(items) else ""
        metadata = {"resourceVersion": "1", **({"continue": rest} if rest else {})}
        page = items[start : start + 2]
        if "/gpusharing.dev/" in url.path:
            # An API server writes custom resources in the order of the alphabet.
            return 200, {"apiVersion": "gpusharing.dev/v1alpha1", "items": page, "kind": "List", "metadata": metadata}
        return 200, {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": page or None}


@contextmanager
def running(server: Server) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(*server.answer(self.path))

        def do_POST(self) -> None:
            # Of a connection that is closed before the body was read, nobody gets the answer.
            self.rfile.read(int(self.headers["Content-Length"]))
            self._send(403, {"message": "nobody may write here"})

        def _send(self, status: int, value: Any) -> None:
            data = json.dumps(value, separators=(",", ":")).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    class Http(ThreadingHTTPServer):
        # Doctor asks many things at once.
        request_queue_size = 128

    with Http(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=[0.01])
        thread.start()
        server.url = f"http://127.0.0.1:{http.server_port}"
        yield server
        http.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with running(Server()) as found:
        yield found


@pytest.fixture
def client(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    monkeypatch.setattr(client_module, "_FIRST_DELAY", 0.001)
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here"}}],
        "clusters": [{"name": "here", "cluster": {"server": server.url}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    with Client(access(tmp_path / "config", None)) as client:
        yield client


def named(*given: str) -> list[Any]:
    return [{"metadata": {"name": name}} for name in given]


@pytest.mark.parametrize("resource", [NODES, NODE_SHARINGS])
def test_lists_come_in_pages(server: Server, client: Client, resource: Resource) -> None:
    long = {"annotations": {"note": "x" * 10_000}}
    server.objects[resource.path()] = [{"metadata": {"name": name, **long}} for name in "abcde"]
    found = read(client, [Ask(resource, fields="x=y", labels="a=b")])
    assert [one["metadata"]["name"] for one in found.of(resource)] == list("abcde")
    assert (found.minor, found.unread) == (37, {})
    pages = [one for one in server.asked if one.startswith(resource.path())]
    assert len(pages) == 3
    assert all("fieldSelector=x%3Dy" in one and "labelSelector=a%3Db" in one and "limit=500" in one for one in pages)


@pytest.mark.parametrize("resource", [NODES, NODE_SHARINGS])
def test_what_people_write_is_not_taken_for_the_next_page(server: Server, client: Client, resource: Resource) -> None:
    notes = {"continue": "1", "kind": '"kind":"List","metadata":{"continue":"1"}}'}
    server.objects[resource.path()] = [{"metadata": {"name": "a", "annotations": notes}}]
    assert len(read(client, [Ask(resource)]).of(resource)) == 1
    assert len([one for one in server.asked if one.startswith(resource.path())]) == 1


def test_an_empty_list(server: Server, client: Client) -> None:
    server.objects[NODES.path()] = []
    assert read(client, [Ask(NODES)]).nodes == []


def test_what_passes_is_asked_again(server: Server, client: Client) -> None:
    server.objects[NODES.path()] = named("a")
    server.troubles = [503, 429]
    assert client.get_json("/version") == VERSION
    assert len(server.asked) == 3


def test_what_stays_is_an_error(server: Server, client: Client) -> None:
    server.refused[NODES.path()] = 500
    with pytest.raises(CommandError, match="is refused"):
        read(client, [Ask(NODES)])


def test_what_may_not_be_read_is_named_and_stops_nothing(server: Server, client: Client) -> None:
    server.refused |= {NODES.path(): 403, CLAIMS.path(): 403}
    server.objects[CLAIMS.path(namespace="ml")] = named("mine")
    server.objects[PODS.path()] = named("pod")
    found = read(client, [Ask(NODES), Ask(CLAIMS, fallback="ml"), Ask(PODS)])
    assert found.unread == {"nodes": f"{NODES.path()} is refused"}
    assert found.only_namespace == {"claims": "ml"}
    assert [one["metadata"]["name"] for one in (*found.claims, *found.pods)] == ["mine", "pod"]


def test_taint_rules_have_an_older_version(server: Server, client: Client) -> None:
    assert read(client, [Ask(TAINT_RULES)]).taint_rules == ()
    server.objects["/apis/resource.k8s.io/v1beta2/devicetaintrules"] = named("rule")
    assert len(read(client, [Ask(TAINT_RULES)]).taint_rules) == 1


def test_single_objects(server: Server, client: Client) -> None:
    assert find(client, NODES, "none") is None
    with pytest.raises(CommandError, match="there is no ResourceClaim none in namespace ml"):
        get(client, CLAIMS, "none", "ml")
    server.refused[NODES.path(name="secret")] = 403
    with pytest.raises(CommandError, match="is refused"):
        get(client, NODES, "secret")


@pytest.mark.parametrize(
    ("version", "expected"),
    [({"minor": "36+"}, 36), ({"minor": "37", "emulationMinor": "36"}, 36), ({"minor": "38"}, 38)],
)
def test_versions(server: Server, client: Client, version: dict[str, str], expected: int) -> None:
    server.version = VERSION | version
    assert read_minor(client) == expected


def test_an_old_kubernetes_is_refused(server: Server, client: Client) -> None:
    server.version = VERSION | {"minor": "33"}
    with pytest.raises(CommandError, match=r"Kubernetes 1\.33 .* upgrade the cluster"):
        read_minor(client)


def test_nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_FIRST_DELAY", 0.001)
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here"}}],
        "clusters": [{"name": "here", "cluster": {"server": "http://127.0.0.1:9"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    with (
        Client(access(tmp_path / "config", None)) as client,
        pytest.raises(CommandError, match=r"no answer from http://127.0.0.1:9"),
    ):
        client.get("/version")


def binding(*subjects: tuple[str, str]) -> dict[str, Any]:
    return {"subjects": [{"kind": kind, "name": "a", "namespace": namespace} for kind, namespace in subjects]}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (binding(("ServiceAccount", "gpus")), "gpus"),
        (binding(("Group", "x"), ("User", "y"), ("ServiceAccount", "gpus")), "gpus"),
        (binding(), "gpusharing-system"),
        ({"subjects": None}, "gpusharing-system"),
        ({"subjects": [{"kind": "ServiceAccount"}]}, "gpusharing-system"),
        (None, "gpusharing-system"),
    ],
)
def test_where_it_is_installed_is_what_administrators_wrote(
    server: Server, client: Client, found: dict[str, Any] | None, expected: str
) -> None:
    if found is not None:
        server.single[BINDING] = found
    assert installed_in(client) == expected


def test_who_may_not_read_where_it_is_installed(server: Server, client: Client) -> None:
    server.refused[BINDING] = 403
    assert installed_in(client) == "gpusharing-system"


def test_doctor_asks_but_once_where_it_is_installed(server: Server, client: Client) -> None:
    server.single[BINDING] = binding(("ServiceAccount", "gpus"))
    installed = read_installation(client, read_cluster(client))
    assert installed.namespace == "gpus"
    assert server.asked.count(BINDING) == 1


def agent(name: str, namespace: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"metadata": metadata, "spec": {"containers": [{}]}, "status": {"phase": "Running"}}


def test_only_agents_where_it_is_installed_are_asked(server: Server, client: Client) -> None:
    """Every pod may have the label of an agent."""
    server.single[BINDING] = binding(("ServiceAccount", "gpus"))
    server.objects[PODS.path()] = [agent("true", "gpus"), agent("liar", "tenant")]
    server.objects[PODS.path(namespace="gpus")] = [agent("true", "gpus")]
    agents.read(client)
    assert [one for one in server.asked if one.endswith("/metrics")] == [
        f"{PODS.path(namespace='gpus', name='true:8080')}/proxy/metrics"
    ]


def test_an_agent_whose_page_has_no_end_is_named(
    server: Server, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "_LONGEST", 1000)
    namespace = "gpusharing-system"
    server.objects[PODS.path(namespace=namespace)] = [agent("liar", namespace)]
    server.objects[f"{PODS.path(namespace=namespace, name='liar:8080')}/proxy/metrics"] = named("x" * 1000)
    assert "larger than" in agents.read(client).problem


@pytest.mark.parametrize(
    "parameters",
    ['{"a":' * 1700 + "1" + "}" * 1700, '{"a":' * 600 + "1" + "}" * 600, "9" * 5000],
    ids=["deep", "less", "long"],
)
def test_a_claim_that_python_would_not_read_hides_no_others(parameters: str) -> None:
    """The API server takes what Go reads."""
    opaque = f'{{"driver":"{names.DRIVER}","parameters":{{"x":{parameters}}}}}'
    bad = f'{{"metadata":{{"name":"a"}},"spec":{{"devices":{{"config":[{{"opaque":{opaque}}}]}}}}}}'
    page = f'{{"kind":"L","apiVersion":"v1","metadata":{{}},"items":[{bad},{{"metadata":{{"name":"b"}}}}]}}'
    found = Lines()
    found.extend(lean(CLAIMS, one) for one in decode_list(page.encode()))
    world = World(minor=37, taken_at="", claims=found)
    for one in (world, anonymous(world, Pseudonyms.of(world, salt=b"", vocabulary=()))):
        assert len(lines.loads(file.dumps(one).encode()).claims) == 2


@pytest.mark.parametrize("body", [{"message": "\x1b[2J" + "x" * 9000}, ["\x1b[2J" + "x" * 9000]])
def test_what_a_pod_answers_in_place_of_an_api_server_is_no_command(server: Server, client: Client, body: Any) -> None:
    server.troubles, server.trouble = [400], body
    with pytest.raises(ReadError) as error:
        client.get("/api/v1/namespaces/tenant/pods/liar:8080/proxy/metrics")
    assert error.value.message.isprintable()
    assert len(error.value.message) <= 1000
