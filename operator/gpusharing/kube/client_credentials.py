"""Who we are to the API server, as kubectl knows it: every kind of kubeconfig, with plugins that renew credentials.

For the operator and the command line; agents do without a Kubernetes client library (`credentials`).
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import structlog
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config
from kubernetes_asyncio.config.kube_config import KubeConfigLoader, load_kube_config

from gpusharing.kube.credentials import Credentials, CredentialsError

log = structlog.get_logger(__name__)

# The library renews tokens five minutes before they expire, when it is asked to.
_ASK_EVERY: Final = 60.0
_TOKEN: Final = "BearerToken"  # noqa: S105 (the name of a field)


async def load(kubeconfig: Path | None) -> Credentials:
    return await (_from_kubeconfig(kubeconfig) if kubeconfig else _in_cluster())


async def _in_cluster() -> Credentials:
    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)
    except ConfigException as error:
        raise CredentialsError(f"not in a pod ({error}): use --kubeconfig") from error

    async def authorization() -> str | None:
        # Reads the mounted token again each minute: the kubelet renews it.
        return _stripped(await configuration.get_api_key_with_prefix(_TOKEN))

    return Credentials(configuration.host, _ssl_context(configuration), authorization)


async def _from_kubeconfig(path: Path) -> Credentials:
    configuration = Configuration()
    try:
        loader = await load_kube_config(str(path), client_configuration=configuration, persist_config=False)
    # The library lets errors of YAML, files and plugins through as they are.
    except Exception as error:
        raise CredentialsError(f"kubeconfig {path}: {type(error).__name__}: {error}") from error
    for unsupported, value in (("tls-server-name", configuration.tls_server_name), ("proxy-url", configuration.proxy)):
        if value:
            raise CredentialsError(f"kubeconfig {path}: {unsupported} is not supported: remove it")
    return Credentials(configuration.host, _ssl_context(configuration), _renewed(loader, configuration))


def _renewed(loader: KubeConfigLoader, configuration: Any) -> Callable[[], Awaitable[str | None]]:
    lock = asyncio.Lock()
    asked = time.monotonic()

    async def authorization() -> str | None:
        nonlocal asked
        async with lock:
            if time.monotonic() - asked > _ASK_EVERY:
                asked = time.monotonic()
                try:
                    await loader.load_and_set(configuration)
                except Exception:
                    # What we have may be good for some more minutes; if not, the API server will say so.
                    log.warning("credentials not renewed", exc_info=True)
        return _stripped(configuration.api_key.get(_TOKEN))

    return authorization


def _ssl_context(configuration: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _stripped(value: str | None) -> str | None:
    # Token files often end with a newline, which no header can have.
    return value.strip() if value else None
