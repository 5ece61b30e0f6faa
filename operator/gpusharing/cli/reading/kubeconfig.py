"""Which API server, and who we are to it: kubeconfig files as kubectl reads them.

Not by the Kubernetes client library, which the operator uses: to import it takes longer than all else that a command
does.
"""

import base64
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpusharing.cli.exits import CommandError
from gpusharing.kube.credentials import SERVICE_ACCOUNT

_EXEC: Final = "client.authentication.k8s.io/"
_LONGEST_PLUGIN: Final = 120.0

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Access:
    server: str
    tls: ssl.SSLContext
    authorization: str | None = None
    """The header; None: the client certificate says who we are."""
    namespace: str = "default"
    server_name: str | None = None
    """The name in the server's certificate, if it is not the one in its URL."""


def access(kubeconfig: Path | None, context: str | None) -> Access:
    """Raises CommandError."""
    paths = [kubeconfig] if kubeconfig else _default_paths()
    existing = [path for path in paths if path.is_file()]
    if not existing:
        if kubeconfig is None and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
            return _in_pod()
        raise CommandError(f"no kubeconfig at {', '.join(map(str, paths))}: use --kubeconfig FILE")
    try:
        return _Config(existing).access(context)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise CommandError(f"kubeconfig {', '.join(map(str, existing))}: {type(error).__name__}: {error}") from error


def _default_paths() -> list[Path]:
    given = [Path(path) for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return given or [Path.home() / ".kube" / "config"]


def _in_pod() -> Access:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    bracketed = f"[{host}]" if ":" in host else host
    try:
        tls = ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt"))
        token = (SERVICE_ACCOUNT / "token").read_text().strip()
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
    except OSError as error:
        raise CommandError(f"service account of the pod: {error}") from error
    return Access(f"https://{bracketed}:{port}", tls, f"Bearer {token}", namespace)


class _Config:
    """Several files count as one: of a name, the first entry counts."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files = [(path, _parsed(path)) for path in paths]

    def access(self, chosen: str | None) -> Access:
        name = chosen or next(
            (found["current-context"] for _, found in self._files if found.get("current-context")), ""
        )
        if not name:
            raise CommandError("the kubeconfig has no current context: use --context NAME")
        if not self._has("contexts", name):
            known = sorted(entry["name"] for _, found in self._files for entry in found.get("contexts") or ())
            raise CommandError(f"the kubeconfig has no context {name}; it has {', '.join(known) or 'none'}")
        context, _ = self._entry("contexts", name)
        cluster, where = self._entry("clusters", context["cluster"])
        if cluster.get("proxy-url"):
            raise CommandError(f"cluster {context['cluster']}: proxy-url is not supported: remove it")
        tls = _server_checks(cluster, where)
        user, of_user = self._entry("users", context["user"]) if context.get("user") else ({}, where)
        return Access(
            cluster["server"].rstrip("/"),
            tls,
            _identify(user, of_user, tls, cluster),
            context.get("namespace") or "default",
            cluster.get("tls-server-name"),
        )

    def _has(self, section: str, name: str) -> bool:
        return any(entry["name"] == name for _, found in self._files for entry in found.get(section) or ())

    def _entry(self, section: str, name: str) -> tuple[Entry, Path]:
        for path, found in self._files:
            for entry in found.get(section) or ():
                if entry["name"] == name:
                    return entry[section.removesuffix("s")] or {}, path.parent
        raise KeyError(f"{section}: no entry {name!r}")


def _parsed(path: Path) -> Mapping[str, Any]:
    text = path.read_text()
    try:
        value = json.loads(text)
    except ValueError:
        import yaml  # noqa: PLC0415 (a file in JSON needs no parser of YAML)

        try:
            value = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 (a safe one)
        except yaml.YAMLError as error:
            raise ValueError(f"no YAML: {error}") from error
    if not isinstance(value, dict):
        raise TypeError("no kubeconfig")
    return value


def _server_checks(cluster: Entry, where: Path) -> ssl.SSLContext:
    data, file = cluster.get("certificate-authority-data"), cluster.get("certificate-authority")
    tls = ssl.create_default_context(
        # As kubectl has it, names of files are relative to the kubeconfig.
        cafile=where / file if file and not data else None,
        cadata=base64.b64decode(data).decode() if data else None,
    )
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


def _identify(user: Entry, where: Path, tls: ssl.SSLContext, cluster: Entry) -> str | None:
    """Puts a client certificate into `tls`, and returns the Authorization header."""
    if user.get("client-certificate-data") or user.get("client-certificate"):
        _load_certificate(
            tls,
            _bytes(user, "client-certificate", where),
            _bytes(user, "client-key", where),
        )
    if user.get("token"):
        return f"Bearer {user['token']}"
    if user.get("tokenFile"):
        return f"Bearer {(where / user['tokenFile']).read_text().strip()}"
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    if user.get("exec"):
        return _from_plugin(user["exec"], where, tls, cluster)
    if user.get("auth-provider"):
        raise CommandError(
            f"the kubeconfig uses auth-provider {user['auth-provider'].get('name')}, which Kubernetes removed: use exec"
        )
    return None


def _bytes(user: Entry, name: str, where: Path) -> bytes:
    data = user.get(f"{name}-data")
    return base64.b64decode(data) if data else (where / user[name]).read_bytes()


def _load_certificate(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # The library reads them from files only.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate.rstrip() + b"\n" + key)
        file.flush()
        tls.load_cert_chain(file.name)


def _from_plugin(plugin: Entry, where: Path, tls: ssl.SSLContext, cluster: Entry) -> str | None:
    command: str = plugin["command"]
    # As kubectl has it: a path with a slash is relative to the kubeconfig, a name is looked up.
    program = str(where / command) if "/" in command else command
    info = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    if plugin.get("provideClusterInfo"):
        about = {name: cluster[name] for name in ("server", "certificate-authority-data") if name in cluster}
        info["spec"] = {"interactive": False, "cluster": about}
    environment = {**os.environ, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    environment |= {one["name"]: one["value"] for one in plugin.get("env") or ()}
    try:
        done = subprocess.run(
            [program, *(plugin.get("args") or ())],
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            timeout=_LONGEST_PLUGIN,
        )
    except FileNotFoundError as error:
        hint = f": {plugin['installHint']}" if plugin.get("installHint") else ""
        raise CommandError(f"the kubeconfig's plugin {command} is not installed{hint}") from error
    except (subprocess.SubprocessError, OSError) as error:
        raise CommandError(f"the kubeconfig's plugin {command} failed: {error}") from error
    answer = json.loads(done.stdout)
    if not str(answer.get("apiVersion", "")).startswith(_EXEC):
        raise CommandError(f"the kubeconfig's plugin {command} did not answer with an ExecCredential")
    status = answer.get("status") or {}
    if status.get("clientCertificateData"):
        _load_certificate(tls, status["clientCertificateData"].encode(), status["clientKeyData"].encode())
    return f"Bearer {status['token']}" if status.get("token") else None
