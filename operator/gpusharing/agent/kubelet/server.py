"""The two sockets of a DRA driver."""

import socket
from collections.abc import Callable, Collection
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from grpclib.server import Server

from gpusharing.agent.kubelet.health_stream import HealthService
from gpusharing.agent.kubelet.registration import RegistrationService
from gpusharing.agent.kubelet.service import DraService
from gpusharing.agent.problems import SocketTakenError

if TYPE_CHECKING:
    from grpclib._typing import IServable

# sockaddr_un has 108 bytes, the last one for the terminating zero.
_LONGEST_SOCKET_PATH: Final = 107
# Calls on a socket that was removed go on. Whoever removes them again and again does not get all our descriptors.
_FORMER: Final = 4


def sockets(kubelet_root: Path, driver: str) -> tuple[Path, Path]:
    """Where the driver is called, and where the kubelet learns that."""
    return kubelet_root / "plugins" / driver / "dra.sock", kubelet_root / "plugins_registry" / f"{driver}-reg.sock"


class PluginServer:
    def __init__(
        self,
        service: DraService,
        health: HealthService,
        *,
        kubelet_root: Path,
        driver: str,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_change`: the kubelet has registered the driver, or refused it."""
        endpoint, registration = sockets(kubelet_root, driver)
        for path in (endpoint, registration):
            if len(str(path).encode()) > _LONGEST_SOCKET_PATH:
                raise ValueError(
                    f"socket path {path} is longer than {_LONGEST_SOCKET_PATH} bytes: set a shorter --kubelet-root"
                )
        self._service = RegistrationService(driver, endpoint, on_change=on_change)
        self._endpoint = _Socket(endpoint, [service, health])
        self._registration = _Socket(registration, [self._service])

    @property
    def registered(self) -> bool:
        """Whether the kubelet knows the driver: it has registered it, and still sees the socket that says so."""
        return self._service.registered

    @property
    def unregistered_for(self) -> float:
        """Seconds; 0 while it is registered."""
        return self._service.unregistered_for

    async def renew(self) -> tuple[Path, ...]:
        """Serves both sockets. Returns those that others had removed; calls in flight are not disturbed."""
        lost = tuple(served.path for served in (self._endpoint, self._registration) if served.is_lost())
        if not self._registration.is_ours():
            # The kubelet forgets a driver whose socket is removed, and calls when it sees another.
            self._service.note(registered=False)
        # The kubelet calls as soon as it sees the registration socket, so that comes second.
        await self._endpoint.serve()
        await self._registration.serve()
        return lost

    async def __aenter__(self) -> Self:
        """Leaves no socket behind. `renew` is what serves."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for served in (self._registration, self._endpoint):
            await served.close()


class _Identity(NamedTuple):
    device: int
    inode: int
    changed: int
    """An inode's number is given again at once."""


class _Socket:
    """A socket in the file system, where others may remove or replace it while we listen."""

    def __init__(self, path: Path, services: Collection["IServable"]) -> None:
        self.path = path
        self._services = services
        self._servers: list[Server] = []
        self._identity: _Identity | None = None

    def is_ours(self) -> bool:
        return self._identity is not None and self._identity == _identity(self.path)

    def is_lost(self) -> bool:
        """Whether others have removed or replaced it."""
        return self._identity is not None and not self.is_ours()

    async def serve(self) -> None:
        """If it is not ours already."""
        if self.is_ours():
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if _is_answered(self.path):
            raise SocketTakenError(
                f"another program serves {self.path}: remove the other DRA driver of this name from the node"
            )
        server = Server(self._services)
        # Takes the place of a socket that nobody serves.
        await server.start(path=str(self.path))
        self._identity = _identity(self.path)
        self._servers.append(server)
        while len(self._servers) > _FORMER + 1:
            self._servers.pop(0).close()

    async def close(self) -> None:
        if self.is_ours():
            self.path.unlink(missing_ok=True)
        for server in self._servers:
            server.close()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()


def _identity(path: Path) -> _Identity | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return _Identity(status.st_dev, status.st_ino, status.st_ctime_ns)


def _is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.setblocking(False)
        try:
            client.connect(str(path))
        except BlockingIOError:
            # Somebody listens, and has much to do.
            return True
        except OSError:
            return False
    return True
