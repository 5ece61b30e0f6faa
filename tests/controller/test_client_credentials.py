import json
import stat
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio.config import incluster_config

from gpusharing.kube import client_credentials
from gpusharing.kube.credentials import CredentialsError
from harness.certificates import CertificateAuthority


def kubeconfig(directory: Path, user: dict[str, Any], **cluster: Any) -> Path:
    path = directory / "kubeconfig"
    content = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443/"} | cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_credentials, "_ASK_EVERY", -1.0)


async def test_a_token(tmp_path: Path) -> None:
    credentials = await client_credentials.load(kubeconfig(tmp_path, {"token": "abc"}))
    assert credentials.server == "https://127.0.0.1:6443"
    assert await credentials.authorization() == "Bearer abc"


async def test_a_token_file_is_read_again(tmp_path: Path, no_pause: None) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    credentials = await client_credentials.load(kubeconfig(tmp_path, {"tokenFile": "token"}))
    assert await credentials.authorization() == "Bearer old"
    token.write_text("new\n")
    assert await credentials.authorization() == "Bearer new"


async def test_no_credentials_but_tls(tmp_path: Path) -> None:
    credentials = await client_credentials.load(kubeconfig(tmp_path, {}))
    assert await credentials.authorization() is None


class Plugin:
    """An exec plugin that counts its runs in the token and says when the token expires."""

    def __init__(self, directory: Path) -> None:
        self._program = directory / "plugin"
        self._state = directory / "plugin.json"
        self.say(expires="2099-01-01T00:00:00Z")
        self._program.write_text(
            f"#!{sys.executable}\n"
            "import json, pathlib, sys\n"
            f"path = pathlib.Path({str(self._state)!r})\n"
            "state = json.loads(path.read_text())\n"
            "state['runs'] += 1\n"
            "path.write_text(json.dumps(state))\n"
            "if state['broken']: sys.exit('cannot')\n"
            "status = {'token': f\"token-{state['runs']}\", 'expirationTimestamp': state['expires']}\n"
            "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
            " 'status': status}))\n"
        )
        self._program.chmod(self._program.stat().st_mode | stat.S_IXUSR)
        self.user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(self._program)}}

    @property
    def runs(self) -> int:
        runs: int = json.loads(self._state.read_text())["runs"]
        return runs

    def say(self, *, expires: str, broken: bool = False) -> None:
        runs = self.runs if self._state.exists() else 0
        self._state.write_text(json.dumps({"runs": runs, "expires": expires, "broken": broken}))


async def test_a_plugin_runs_again_only_when_its_token_expires(tmp_path: Path, no_pause: None) -> None:
    plugin = Plugin(tmp_path)
    credentials = await client_credentials.load(kubeconfig(tmp_path, plugin.user))
    for _ in range(3):
        assert await credentials.authorization() == "Bearer token-1"
    assert plugin.runs == 1


async def test_a_plugin_renews_what_expires(tmp_path: Path, no_pause: None) -> None:
    plugin = Plugin(tmp_path)
    plugin.say(expires="2000-01-01T00:00:00Z")
    credentials = await client_credentials.load(kubeconfig(tmp_path, plugin.user))
    assert await credentials.authorization() == "Bearer token-2"


async def test_a_plugin_that_fails_later_leaves_what_there_is(tmp_path: Path, no_pause: None) -> None:
    plugin = Plugin(tmp_path)
    plugin.say(expires="2000-01-01T00:00:00Z")
    credentials = await client_credentials.load(kubeconfig(tmp_path, plugin.user))
    plugin.say(expires="2000-01-01T00:00:00Z", broken=True)
    assert await credentials.authorization() == "Bearer token-1"


async def test_a_plugin_is_not_asked_for_each_request(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    plugin.say(expires="2000-01-01T00:00:00Z")
    credentials = await client_credentials.load(kubeconfig(tmp_path, plugin.user))
    for _ in range(3):
        await credentials.authorization()
    assert plugin.runs == 1


@pytest.mark.parametrize(
    ("user", "cluster", "message"),
    [
        ({"exec": {"apiVersion": "v1", "command": "/does/not/exist"}}, {}, "No such file"),
        ({}, {"proxy-url": "http://127.0.0.1:1"}, "proxy-url is not supported"),
        ({}, {"tls-server-name": "kubernetes"}, "tls-server-name is not supported"),
        ({}, {"certificate-authority": "missing.crt"}, "missing.crt"),
    ],
)
async def test_what_cannot_work_is_said(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], message: str
) -> None:
    with pytest.raises(CredentialsError, match=message):
        await client_credentials.load(kubeconfig(tmp_path, user, **cluster))


async def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="nowhere"):
        await client_credentials.load(tmp_path / "nowhere")


async def test_outside_of_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CredentialsError, match="--kubeconfig"):
        await client_credentials.load(None)


async def test_a_pods_token_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = CertificateAuthority(tmp_path / "pki")
    await authority.create()
    token = tmp_path / "token"
    token.write_text("old\n")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority.certificate))
    monkeypatch.setattr(incluster_config, "TOKEN_REFRESH_PERIOD", timedelta(0))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    credentials = await client_credentials.load(None)
    assert credentials.server == "https://[fd00::1]:443"
    assert await credentials.authorization() == "Bearer old"
    token.write_text("new\n")
    assert await credentials.authorization() == "Bearer new"
