"""Who we are to the API server: the agent's part, without a Kubernetes client library on every node."""

import base64
import os
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class CredentialsError(Exception):
    """There is no usable way to reach the API server. The message says what is missing."""


@dataclass(frozen=True)
class Credentials:
    server: str
    ssl: ssl.SSLContext
    authorization: Callable[[], Awaitable[str | None]]
    """The Authorization header, asked before every request, because tokens are rotated. None: TLS says who we are."""


def load(kubeconfig: Path | None) -> Credentials:
    return from_kubeconfig(kubeconfig) if kubeconfig else in_cluster()


def in_cluster(directory: Path = SERVICE_ACCOUNT) -> Credentials:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise CredentialsError("not in a pod (KUBERNETES_SERVICE_HOST is not set): use --kubeconfig")
    bracketed = f"[{host}]" if ":" in host else host
    try:
        context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    except OSError as error:
        raise CredentialsError(f"service account: {directory / 'ca.crt'}: {error}") from error
    return Credentials(f"https://{bracketed}:{port}", context, _token_file(directory / "token"))


def from_kubeconfig(path: Path) -> Credentials:
    import yaml  # noqa: PLC0415 (a pod on a node has no kubeconfig, and pays for no parser)

    try:
        config = yaml.safe_load(path.read_text())
        context = _named(config, "contexts", config["current-context"])["context"]
        cluster = dict(_named(config, "clusters", context["cluster"])["cluster"])
        user = dict(_named(config, "users", context["user"])["user"])
        authority = cluster.get("certificate-authority")
        tls = ssl.create_default_context(
            # As kubectl has it, names of files are relative to the kubeconfig.
            cafile=path.parent / authority if authority else None,
            cadata=_decoded(cluster.get("certificate-authority-data")),
        )
        server = cluster["server"]
    except (OSError, KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        raise CredentialsError(f"kubeconfig {path}: {type(error).__name__}: {error}") from error
    if "token" in user:
        return Credentials(server, tls, _constant(f"Bearer {user['token']}"))
    if "tokenFile" in user:
        return Credentials(server, tls, _token_file(path.parent / user["tokenFile"]))
    raise CredentialsError(f"kubeconfig {path}: the user needs token or tokenFile; agents have no other credentials")


def _named(config: Any, section: str, name: str) -> Any:
    for entry in config[section]:
        if entry["name"] == name:
            return entry
    raise KeyError(f"{section}: no entry {name!r}")


def _decoded(data: str | None) -> str | None:
    return base64.b64decode(data).decode() if data else None


def _constant(value: str) -> Callable[[], Awaitable[str | None]]:
    async def authorization() -> str:
        return value

    return authorization


def _token_file(path: Path) -> Callable[[], Awaitable[str | None]]:
    async def authorization() -> str:
        # A projected token is a hundred bytes in memory of the kubelet's making: reading it each time is cheaper
        # than being wrong about when it changes.
        return f"Bearer {path.read_text().strip()}"  # noqa: ASYNC240

    return authorization
