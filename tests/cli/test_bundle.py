"""What comes into a bundle, from a server that refuses, lies and hangs."""

import io
import json
import re
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest

from explaining.bed import request
from explaining.scenes import claim, pod
from gpusharing.cli import exits
from gpusharing.cli.main import main
from gpusharing.cli.reading import programs
from gpusharing.snapshots import archive, lines
from gpusharing.snapshots.world import CLAIMS, DAEMON_SETS, EVENTS, NODE_SHARINGS, PODS, POLICIES, RESOURCES, World

SYSTEM: Final = "gpusharing-system"
_IN_NAMESPACE: Final = re.compile(r"^(.*)/namespaces/([^/]+)/([^/]+)$")
POD: Final = f"/api/v1/namespaces/{SYSTEM}/pods"


def program(name: str, which: str, *, node: str = "node-1", ended: bool = False) -> Mapping[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": SYSTEM,
            "uid": f"uid-{name}",
            "labels": {"app.kubernetes.io/name": f"gpusharing-{which}"},
            "annotations": {"note": "secret-annotation"},
        },
        "spec": {
            "nodeName": node,
            "containers": [
                {
                    "name": which,
                    "image": "registry/secret-image",
                    "env": [{"name": "TOKEN", "value": "secret-token"}],
                    "ports": [{"name": "http", "containerPort": 8080}],
                }
            ],
        },
        "status": {
            "containerStatuses": [
                {"name": which, "ready": not ended, "lastState": {"terminated": {"exitCode": 1}} if ended else {}}
            ]
        },
    }


def event(name: str, about: str, kind: str, *, moment: str = "2020-01-01T10:00:00Z") -> Mapping[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ml"},
        "involvedObject": {"kind": kind, "name": about, "namespace": "ml", "uid": f"uid-{about}"},
        "reason": "Reason",
        "message": f"{about} waits",
        "lastTimestamp": moment,
        "source": {"host": "secret-host"},
    }


class Server:
    """As an API server answers: lists, logs, and metrics by proxy."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.refused: set[str] = set()
        self.hanging: set[str] = set()
        self.answers: dict[str, bytes] = {}
        self.lists: dict[str, list[Any]] = {one.path(): [] for one in RESOURCES}

    def answer(self, target: str) -> tuple[int, bytes]:
        self.asked.append(target)
        url = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path in self.refused:
            return 403, json.dumps({"message": f'User "jane" cannot get {url.path}'}).encode()
        if url.path == "/version":
            return 200, b'{"major": "1", "minor": "37"}'
        if url.path == "/apis/resource.k8s.io":
            return 200, b'{"versions": [{"groupVersion": "resource.k8s.io/v1"}]}'
        path, _, namespace = _IN_NAMESPACE.sub(r"\1/\3 \2", url.path).partition(" ")
        if path in self.lists:
            items = [one for one in self.lists[path] if namespace in ("", one["metadata"].get("namespace"))]
            if "labelSelector" in query:
                items = [one for one in items if "app.kubernetes.io/name" in (one["metadata"].get("labels") or {})]
            return 200, json.dumps({"metadata": {}, "items": items}, separators=(",", ":")).encode()
        name = url.path + ("?previous" if "previous" in query else "")
        return (200, self.answers[name]) if name in self.answers else (404, b'{"message": "not found"}')


@contextmanager
def running(server: Server) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if urlsplit(self.path).path in server.hanging:
                self.trickle()
                return
            status, data = server.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def trickle(self) -> None:
            """Never a pause that is too long, and never an end."""
            self.send_response(200)
            self.send_header("Content-Length", str(1 << 30))
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"x\n")
                    time.sleep(0.02)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    class Http(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Those that were cut off."""

    with Http(("127.0.0.1", 0), Handler) as http:
        thread = Thread(target=http.serve_forever, args=[0.01])
        thread.start()
        server.url = f"http://127.0.0.1:{http.server_port}"
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    made.lists[PODS.path()] = [
        program("operator-a", "operator"),
        program("agent-a", "agent", ended=True),
        pod("train-7", "mine"),
        {"metadata": {"name": "web", "namespace": "shop", "uid": "uid-web"}, "spec": {"containers": []}},
    ]
    made.lists[CLAIMS.path()] = [claim("mine", request("gpu.nvidia.com"))]
    made.lists[EVENTS.path()] = [
        event("1", "train-7", "Pod"),
        event("2", "web", "Pod"),
        event("3", "quarters", "SharingPolicy"),
        event("4", "config", "ConfigMap"),
    ]
    made.lists[NODE_SHARINGS.path()] = [{"metadata": {"name": "node-1"}, "status": {}}]
    for name in ("operator-a", "agent-a"):
        made.answers[f"{POD}/{name}/log"] = b'{"event": "started"}\n'
        made.answers[f"{POD}/{name}:8080/proxy/metrics"] = b"gpusharing_up 1\n"
    made.answers[f"{POD}/agent-a/log?previous"] = b'{"event": "agent cannot run"}\n'
    with running(made) as serving:
        yield serving


@pytest.fixture
def kubeconfig(server: Server, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c"}}],
                "clusters": [{"name": "c", "cluster": {"server": server.url}}],
            }
        )
    )
    return path


def bundle(kubeconfig: Path, *options: str) -> tuple[int, dict[str, bytes], World]:
    path = kubeconfig.parent / "bundle.tar.gz"
    with pytest.raises(SystemExit) as ended:
        main(["bundle", f"--kubeconfig={kubeconfig}", "-f", str(path), *options])
    if not path.exists():
        return int(str(ended.value.code)), {}, World(minor=0, taken_at="")
    data = path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(fileobj=io.BytesIO(data)) as found:
        files = {
            one.name.removeprefix(f"{archive.FOLDER}/"): found.extractfile(one).read()  # type: ignore[union-attr]
            for one in found
        }
    return int(str(ended.value.code)), files, lines.loads(data)


def test_pods_that_look_like_an_agent_are_not_asked(server: Server, kubeconfig: Path) -> None:
    impostor = program("agent-b", "agent")
    impostor["metadata"]["namespace"] = "ml"
    server.lists[PODS.path()].append(impostor)
    _, files, _ = bundle(kubeconfig)
    assert {name.split("/")[2] for name in files if name.startswith("agents/")} == {"agent-a"}
    assert not [path for path in server.asked if "agent-b" in path]


def test_what_is_in_it(server: Server, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, files, world = bundle(kubeconfig)
    assert code == exits.OK
    assert list(files) == [
        "README.txt",
        "snapshot.json",
        "agents/node-1/agent-a/log.txt",
        "agents/node-1/agent-a/metrics.txt",
        "agents/node-1/agent-a/previous-log.txt",
        "operator/operator-a/log.txt",
        "operator/operator-a/metrics.txt",
    ]
    assert files["agents/node-1/agent-a/previous-log.txt"] == b'{"event": "agent cannot run"}\n'
    assert {one["metadata"]["name"] for one in world.events} == {"1", "3"}
    assert world.served == ("resource.k8s.io/v1",)
    assert b"All was read." in files["README.txt"]
    assert b"of 1 of 1 that are not well" in files["README.txt"]
    assert [word for word in (b"secret", b"TOKEN") if word in b"".join(files.values())] == []
    assert "bundle.tar.gz: 1 kB." in capsys.readouterr().out
    # Nothing that is secret is even asked for.
    assert [one for one in server.asked if "secrets" in one or "configmaps" in one] == []


def test_with_few_rights(server: Server, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.refused = {POLICIES.path(), EVENTS.path(), f"{POD}/agent-a/log", f"{POD}/operator-a:8080/proxy/metrics"}
    code, files, world = bundle(kubeconfig)
    assert code == exits.OK
    said = capsys.readouterr().err
    for line in (
        'policies: User "jane" cannot get',
        'events: User "jane" cannot get',
        'agents/node-1/agent-a/log.txt: User "jane" cannot get',
        'operator/operator-a/metrics.txt: User "jane" cannot get',
    ):
        assert line in said
        assert line in files["README.txt"].decode()
    assert world.unread.keys() == {"policies", "events"}
    assert "operator/operator-a/log.txt" in files


def test_without_the_programs(server: Server, kubeconfig: Path) -> None:
    """Not installed, or with other labels: that must not look as if all was there."""
    server.lists[PODS.path()] = [pod("train-7", "mine")]
    _, files, _ = bundle(kubeconfig)
    assert b"logs and metrics: no pod of operator or agent was found" in files["README.txt"]


def test_kinds_that_the_server_does_not_have(server: Server, kubeconfig: Path) -> None:
    """An older Kubernetes, or one without our CRDs: the latter is worth a line."""
    for path in ("/apis/scheduling.k8s.io/v1beta1/podgroups", "/apis/resource.k8s.io/v1/devicetaintrules"):
        del server.lists[path]
    del server.lists[POLICIES.path()]
    _, files, world = bundle(kubeconfig)
    assert world.unread.keys() == {"policies"}
    assert b"does not serve gpusharing.dev/v1alpha1 sharingpolicies" in files["README.txt"]


def test_without_any_right(server: Server, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.refused = {*server.lists, POD}
    code, files, _ = bundle(kubeconfig)
    assert (code, files) == (exits.FAILED, {})
    assert "error: nothing could be read" in capsys.readouterr().err


def test_no_name_of_anybody(server: Server, kubeconfig: Path) -> None:
    log = b'{"event": "claim prepared", "claim": "ml/train-7-gpu", "node": "node-1"}\nFormerTenant failed\n'
    server.answers[f"{POD}/agent-a/log"] = log
    server.answers[f"{POD}/agent-a:8080/proxy/metrics"] = b'gpusharing_claims{namespace="ml",claim="mine"} 1\n'
    server.refused = {f"{POD}/operator-a:8080/proxy/metrics"}
    _, files, world = bundle(kubeconfig, "--anonymous")
    named = ["train-7", "mine", "web", "shop", "quarters", "node-1", "operator-a", "agent-a", "FormerTenant", "jane"]
    everything = b"\n".join([*map(str.encode, files), *files.values()]).decode()
    assert [name for name in named if re.search(rf"\b{name}\b", everything)] == []
    assert '"event": "claim prepared"' in everything
    assert len(world.events) == 2
    (agent,) = [one for one in world.pods if "containerStatuses" in one["status"] and "agent" in str(one)]
    assert any(f"/{agent['metadata']['name']}/" in name for name in files)


def test_no_name_of_anybody_with_few_rights(server: Server, kubeconfig: Path) -> None:
    """Who may only read the namespace of the programs does not get their nodes' names from the World."""
    server.lists[POD] = server.lists[PODS.path()][:2]
    server.refused = set(server.lists) - {POD}
    _, files, world = bundle(kubeconfig, "--anonymous")
    assert list(world.pods) == []
    assert [name for name in files if name.endswith("log.txt")]
    everything = b"\n".join([*map(str.encode, files), *files.values()]).decode()
    assert [name for name in ("node-1", "operator-a", "agent-a", "jane") if name in everything] == []


def test_large_logs_have_their_end(
    server: Server, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(programs, "LARGEST", 1000)
    monkeypatch.setattr(programs, "IN_ALL", 2500)
    server.answers[f"{POD}/operator-a/log"] = b"old\n" * 1000 + b"newest\n"
    server.answers[f"{POD}/agent-a/log"] = b"x" * 5000
    server.answers[f"{POD}/agent-a/log?previous"] = b"x" * 5000
    _, files, _ = bundle(kubeconfig)
    assert len(files["operator/operator-a/log.txt"]) == 1000
    assert files["operator/operator-a/log.txt"].endswith(b"old\nnewest\n")
    assert len(files["agents/node-1/agent-a/log.txt"]) == 1000
    assert "agents/node-1/agent-a/previous-log.txt: the bundle has" in capsys.readouterr().err


def test_a_node_that_never_ends_its_answer_is_not_waited_for(
    server: Server, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(programs, "TIMEOUT", 2.0)
    server.hanging = {f"{POD}/operator-a/log"}
    code, files, _ = bundle(kubeconfig)
    assert code == exits.OK
    assert "operator/operator-a/log.txt: no answer" in capsys.readouterr().err
    assert "operator/operator-a/log.txt" not in files
    assert "agents/node-1/agent-a/log.txt" in files


def test_since_and_nodes(server: Server, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recent = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60))
    server.lists[EVENTS.path()].append(event("5", "quarters", "SharingPolicy", moment=recent))
    _, files, world = bundle(kubeconfig, "--since", "2h", "--nodes", "node-9")
    assert [one["metadata"]["name"] for one in world.events] == ["5"]
    assert not [name for name in files if name.startswith("agents/")]
    assert "not in the bundle: logs of node node-9: no agent" in capsys.readouterr().err
    (asked,) = [one for one in server.asked if "operator-a/log" in one]
    assert "sinceSeconds=7200" in asked


@pytest.mark.parametrize("text", ["2", "h", "2 h", "-1h", "1w", "99999999h"])
def test_what_is_no_duration(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bundle", f"--since={text}"])
    assert ended.value.code == exits.USAGE
    assert "is not a duration such as 30m, 2h or 1d" in capsys.readouterr().err


def test_only_agents_daemon_sets(server: Server, kubeconfig: Path) -> None:
    server.lists[DAEMON_SETS.path()] = [{"metadata": {"name": "others"}, "spec": {}}]
    _, _, world = bundle(kubeconfig)
    assert list(world.daemon_sets) == []


def test_a_file_that_cannot_be_written(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bundle", f"--kubeconfig={kubeconfig}", "-f", str(kubeconfig.parent)])
    assert ended.value.code == exits.FAILED
    assert f"error: {kubeconfig.parent}: Is a directory" in capsys.readouterr().err
