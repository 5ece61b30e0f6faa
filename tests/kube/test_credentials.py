"""How the agent finds the API server and who it is there, without a client library."""

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusharing.kube import credentials
from gpusharing.kube.credentials import CredentialsError
from harness.certificates import CertificateAuthority

SERVER = "https://127.0.0.1:6443"


@pytest.fixture
async def authority(tmp_path: Path) -> bytes:
    """A CA's certificate, which is also in pki/ca.crt."""
    ca = CertificateAuthority(tmp_path / "pki")
    await ca.create()
    return ca.certificate.read_bytes()


def kubeconfig(path: Path, user: Any, cluster: dict[str, Any], *, as_json: bool = False) -> Path:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "other", "cluster": {}}, {"name": "here", "cluster": {"server": SERVER} | cluster}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "now", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "now",
    }
    path.write_text(json.dumps(content) if as_json else yaml.safe_dump(content))
    return path


def subjects(context: ssl.SSLContext) -> list[Any]:
    return [certificate["subject"] for certificate in context.get_ca_certs()]


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("inline", [False, True])
async def test_kubeconfig_with_a_token(tmp_path: Path, authority: bytes, *, as_json: bool, inline: bool) -> None:
    data = base64.b64encode(authority).decode()
    # As kubectl has it, names of files are relative to the kubeconfig.
    cluster = {"certificate-authority-data": data} if inline else {"certificate-authority": "pki/ca.crt"}
    found = credentials.load(kubeconfig(tmp_path / "config", {"token": "abc"}, cluster, as_json=as_json))
    assert found.server == SERVER
    assert await found.authorization() == "Bearer abc"
    assert len(subjects(found.ssl)) == 1
    assert found.ssl.verify_mode is ssl.CERT_REQUIRED
    assert found.ssl.check_hostname


async def test_token_file_is_read_each_time(tmp_path: Path, authority: bytes) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    path = kubeconfig(
        tmp_path / "config", {"tokenFile": "token"}, {"certificate-authority": str(tmp_path / "pki/ca.crt")}
    )
    found = credentials.load(path)
    assert await found.authorization() == "Bearer one"
    # As the kubelet rotates it.
    (tmp_path / "new").write_text("two\n")
    (tmp_path / "new").rename(token)
    assert await found.authorization() == "Bearer two"
    token.unlink()
    with pytest.raises(FileNotFoundError):
        await found.authorization()


@pytest.mark.parametrize(
    ("host", "server"),
    [
        ("10.96.0.1", "https://10.96.0.1:6443"),
        ("fd00::1", "https://[fd00::1]:6443"),
        ("kubernetes.default.svc", "https://kubernetes.default.svc:6443"),
    ],
)
async def test_pod(tmp_path: Path, authority: bytes, monkeypatch: pytest.MonkeyPatch, host: str, server: str) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    (tmp_path / "ca.crt").write_bytes(authority)
    (tmp_path / "token").write_text("abc\n")
    found = credentials.in_cluster(tmp_path)
    assert found.server == server
    assert len(subjects(found.ssl)) == 1
    assert await found.authorization() == "Bearer abc"
    (tmp_path / "token").write_text("def")
    assert await found.authorization() == "Bearer def"


def test_pod_without_a_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(CredentialsError, match=f"service account: {tmp_path}/ca.crt: .*No such file"):
        credentials.in_cluster(tmp_path)
    (tmp_path / "ca.crt").write_text("no certificate")
    with pytest.raises(CredentialsError, match=f"service account: {tmp_path}/ca.crt: "):
        credentials.in_cluster(tmp_path)


def test_neither_pod_nor_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CredentialsError, match=r"not in a pod .*: use --kubeconfig"):
        credentials.load(None)


_CONTEXTS = [{"name": "now", "context": {"cluster": "here", "user": "me"}}]
_CLUSTERS = [{"name": "here", "cluster": {"server": SERVER}}]
_USERS = [{"name": "me", "user": {"token": "abc"}}]
_WHOLE = {"current-context": "now", "contexts": _CONTEXTS, "clusters": _CLUSTERS, "users": _USERS}


def _cluster(**fields: Any) -> dict[str, Any]:
    return {"clusters": [{"name": "here", "cluster": {"server": SERVER} | fields}]}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"current-context": "then"}, "contexts: no entry 'then'"),
        ({"contexts": None}, "TypeError"),
        ({"clusters": []}, "clusters: no entry 'here'"),
        ({"clusters": [{"name": "here", "cluster": None}]}, "TypeError"),
        ({"clusters": [{"name": "here", "cluster": {}}]}, "KeyError: 'server'"),
        ({"users": [{"name": "me", "user": None}]}, "TypeError"),
        ({"users": [{"name": "me", "user": {}}]}, "the user needs token or tokenFile"),
        ({"users": [{"name": "me", "user": {"exec": {}}}]}, "agents have no other credentials"),
        (_cluster(**{"certificate-authority": "absent.crt"}), "FileNotFoundError"),
        (_cluster(**{"certificate-authority-data": "x"}), "Error"),
        (_cluster(**{"certificate-authority-data": base64.b64encode(b"\xff").decode()}), "Error"),
        (_cluster(**{"certificate-authority-data": base64.b64encode(b"none").decode()}), "Error"),
    ],
)
def test_kubeconfig_that_cannot_be_used_says_why(tmp_path: Path, changes: dict[str, Any], problem: str) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(_WHOLE))
    credentials.load(path)
    path.write_text(json.dumps(_WHOLE | changes))
    with pytest.raises(CredentialsError) as error:
        credentials.load(path)
    assert str(error.value).startswith(f"kubeconfig {path}: ")
    assert problem in str(error.value)


@pytest.mark.parametrize("content", ["", "[]", "text", "a: [", "\x00"])
def test_file_that_is_no_kubeconfig(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(CredentialsError, match=f"kubeconfig {path}: "):
        credentials.load(path)
    with pytest.raises(CredentialsError, match="FileNotFoundError"):
        credentials.load(tmp_path / "absent")
