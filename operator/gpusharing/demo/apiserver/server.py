"""The embedded API server, from start to end."""

import asyncio
import re
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from aiohttp import web

from gpusharing.demo.apiserver.admission import User
from gpusharing.demo.apiserver.certificate import certificate_and_key
from gpusharing.demo.apiserver.http import Server
from gpusharing.demo.apiserver.kinds import Kinds
from gpusharing.demo.apiserver.objects import SYSTEM, Objects
from gpusharing.demo.apiserver.store import Store
from gpusharing.demo.apiserver.users import Users, write_kubeconfig

_HOST: Final = "127.0.0.1"
_ADMIN: Final = User("kubernetes-admin", ("system:masters", "system:authenticated"))
_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_LEASES: Final = ("coordination.k8s.io", "leases")
_IDENTITY: Final[dict[str, Any]] = {
    "metadata": {
        "name": "apiserver-embedded",
        "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"},
    },
    "spec": {"holderIdentity": "gpusharing-demo", "leaseDurationSeconds": 3600},
}


class EmbeddedApiServer:
    """Serves on loopback while it is entered. It keeps nothing when it ends."""

    def __init__(self, directory: Path, *, port: int = 0) -> None:
        """`directory`: for kubeconfigs. `port`: 0: a free one."""
        self._directory = directory
        self._port = port
        self._users = Users()
        self._runner: web.AppRunner | None = None
        self._certificate = ""
        self.url = ""
        self.kubeconfig = directory / "kubeconfig"
        """Of an administrator."""

    async def __aenter__(self) -> Self:
        self._certificate, key = certificate_and_key()
        later = asyncio.get_running_loop().call_soon
        objects = Objects(Store(), Kinds(), later=later, authority=self._certificate)
        server = Server(objects, self._users)
        runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._runner = runner
        try:
            listener = socket.create_server((_HOST, self._port))
            port = listener.getsockname()[1]
            server.hosts = frozenset({f"{_HOST}:{port}", f"localhost:{port}"})
            self.url = f"https://{_HOST}:{port}"
            _fill(objects)
            self._directory.mkdir(parents=True, exist_ok=True)
            await web.SockSite(runner, listener, ssl_context=_tls(self._directory, self._certificate, key)).start()
            self.add_user(_ADMIN.name, *_ADMIN.groups, path=self.kubeconfig)
        except BaseException:
            await runner.cleanup()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    def add_user(
        self,
        name: str,
        *groups: str,
        extra: Mapping[str, tuple[str, ...]] | None = None,
        path: Path | None = None,
    ) -> Path:
        """A kubeconfig for somebody of this name. `extra`: what tokens of pods say of their node, for instance."""
        user = User(name, groups, extra)
        token = self._users.add(user)
        target = path or self._directory / f"{re.sub('[^A-Za-z0-9.-]', '-', name)}.kubeconfig"
        return write_kubeconfig(target, url=self.url, certificate=self._certificate, token=token, user=user)


def _tls(directory: Path, certificate: str, key: str) -> ssl.SSLContext:
    """Python reads certificates and keys from files only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    file = directory / "apiserver.pem"
    file.touch(mode=0o600)
    file.write_text(certificate + key)
    context.load_cert_chain(file)
    file.unlink()
    return context


def _fill(objects: Objects) -> None:
    """What every cluster has."""
    namespaces, leases = objects.kinds.stored_as("", "namespaces"), objects.kinds.stored_as(*_LEASES)
    if namespaces is None or leases is None:
        raise AssertionError("unreachable")
    for name in _NAMESPACES:
        objects.create(namespaces, "", {"metadata": {"name": name}}, SYSTEM)
    objects.create(leases, "kube-system", _IDENTITY, SYSTEM)
