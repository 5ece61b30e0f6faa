"""Kubeconfig files, as kubectl reads them."""

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusharing.cli.exits import CommandError
from gpusharing.cli.reading.kubeconfig import access
from harness.certificates import CertificateAuthority

SERVER = "https://127.0.0.1:6443"


@pytest.fixture(autouse=True)
def nothing_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def write(path: Path, **parts: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **parts}))
    return path


def a_config(path: Path, user: dict[str, Any], *, cluster: dict[str, Any] | None = None, **context: Any) -> Path:
    return write(
        path,
        clusters=[{"name": "here", "cluster": {"server": SERVER, "insecure-skip-tls-verify": True} | (cluster or {})}],
        users=[{"name": "me", "user": user}],
        contexts=[{"name": "now", "context": {"cluster": "here", "user": "me", **context}}],
        **{"current-context": "now"},
    )


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"token": "abc"}, "Bearer abc"),
        ({"tokenFile": "token"}, "Bearer of-a-file"),
        ({"username": "u", "password": "p"}, f"Basic {base64.b64encode(b'u:p').decode()}"),
        ({}, None),
    ],
)
def test_users(tmp_path: Path, user: dict[str, Any], header: str | None) -> None:
    (tmp_path / "token").write_text("of-a-file\n")
    found = access(a_config(tmp_path / "config", user), None)
    assert (found.server, found.authorization, found.namespace) == (SERVER, header, "default")
    assert found.tls.verify_mode is ssl.CERT_NONE


async def test_certificates(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path / "pki")
    await authority.create()
    client = await authority.client("me")
    user = {"client-certificate": str(client.certificate), "client-key": str(client.key)}
    cluster = {"insecure-skip-tls-verify": False, "certificate-authority": "pki/ca.crt", "tls-server-name": "other"}
    found = access(a_config(tmp_path / "config", user, cluster=cluster), None)
    assert len(found.tls.get_ca_certs()) == 1
    assert found.tls.verify_mode is ssl.CERT_REQUIRED
    assert found.server_name == "other"


def test_a_plugin_is_asked(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "login"
    program.parent.mkdir()
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "fresh"}}
    program.write_text(f"#!/bin/sh\n[ \"$1$WHO\" = forme ] && echo '{json.dumps(answer)}'\n")
    program.chmod(0o755)
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./bin/login",
        "args": ["for"],
        "env": [{"name": "WHO", "value": "me"}],
    }
    assert access(a_config(tmp_path / "config", {"exec": plugin}), None).authorization == "Bearer fresh"
    with pytest.raises(CommandError, match="failed"):
        access(a_config(tmp_path / "config", {"exec": plugin | {"args": []}}), None)
    missing = plugin | {"command": "no-such-login", "installHint": "install it"}
    with pytest.raises(CommandError, match="no-such-login is not installed: install it"):
        access(a_config(tmp_path / "config", {"exec": missing}), None)


def test_of_several_files_the_first_entry_of_a_name_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write(
        tmp_path / "first",
        users=[{"name": "me", "user": {"token": "first"}}],
        contexts=[{"name": "other", "context": {"cluster": "here", "user": "me", "namespace": "ml"}}],
    )
    second = a_config(tmp_path / "second", {"token": "second"})
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path}/none:{second}")
    assert access(None, None).authorization == "Bearer first"
    assert access(None, "other").namespace == "ml"


def test_the_default_is_in_the_home(tmp_path: Path) -> None:
    a_config(tmp_path / ".kube/config", {"token": "abc"})
    assert access(None, None).authorization == "Bearer abc"


@pytest.mark.parametrize(
    ("change", "context", "message"),
    [
        ({"current-context": ""}, None, "no current context: use --context"),
        ({}, "prod", "no context prod; it has now"),
        ({"clusters": []}, None, "clusters: no entry 'here'"),
        ({"users": None}, None, "users: no entry 'me'"),
        ({"users": [{"name": "me", "user": {"auth-provider": {"name": "gcp"}}}]}, None, "auth-provider gcp"),
    ],
)
def test_errors_say_what_is_missing(tmp_path: Path, change: dict[str, Any], context: str | None, message: str) -> None:
    path = a_config(tmp_path / "config", {"token": "abc"})
    write(path, **(yaml.safe_load(path.read_text()) | change))
    with pytest.raises(CommandError, match=message):
        access(path, context)


@pytest.mark.parametrize("text", ["- 1", "a: : b", ""])
def test_files_that_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(CommandError, match="kubeconfig"):
        access(tmp_path / "config", None)


def test_no_file_at_all(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"no kubeconfig at .*\.kube/config: use --kubeconfig"):
        access(None, None)
