"""The two sockets of a DRA driver."""

from pathlib import Path
from types import TracebackType
from typing import Final, Self

from grpclib.server import Server

from gpusharing.agent.dra.health import HealthService
from gpusharing.agent.dra.registration import RegistrationService
from gpusharing.agent.dra.service import DraService

# sockaddr_un has 108 bytes, the last one for the terminating zero.
_LONGEST_SOCKET_PATH: Final = 107


def sockets(kubelet_root: Path, driver: str) -> tuple[Path, Path]:
    """Where the driver is called, and where the kubelet learns that."""
    return kubelet_root / "plugins" / driver / "dra.sock", kubelet_root / "plugins_registry" / f"{driver}-reg.sock"


class PluginServer:
    def __init__(self, service: DraService, health: HealthService, *, kubelet_root: Path, driver: str) -> None:
        self._endpoint, self._registration = sockets(kubelet_root, driver)
        for path in (self._endpoint, self._registration):
            if len(str(path).encode()) > _LONGEST_SOCKET_PATH:
                raise ValueError(
                    f"socket path {path} is longer than {_LONGEST_SOCKET_PATH} bytes: set a shorter --kubelet-root"
                )
        self._plugin_server = Server([service, health])
        self._service = RegistrationService(driver, self._endpoint)
        self._registration_server = Server([self._service])

    @property
    def registered(self) -> bool:
        """Whether the kubelet has taken the driver in."""
        return self._service.registered

    async def __aenter__(self) -> Self:
        self._endpoint.parent.mkdir(parents=True, exist_ok=True)
        self._registration.parent.mkdir(parents=True, exist_ok=True)
        # The kubelet calls as soon as it sees the registration socket, so that comes second, and goes first.
        await self._plugin_server.start(path=str(self._endpoint))
        await self._registration_server.start(path=str(self._registration))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server, path in (
            (self._registration_server, self._registration),
            (self._plugin_server, self._endpoint),
        ):
            path.unlink(missing_ok=True)
            server.close()
            await server.wait_closed()
