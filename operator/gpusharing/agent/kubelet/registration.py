"""How the kubelet finds us: a socket in its registry directory that tells where the real one is."""

from collections.abc import Callable
from pathlib import Path

import structlog
from grpclib.const import Cardinality, Handler
from grpclib.server import Stream

from gpusharing.agent.kubelet import health_stream, service
from gpusharing.agent.kubelet.pb import registration_pb2 as pb
from gpusharing.kube.clock import seconds_since_boot

log = structlog.get_logger(__name__)


class RegistrationService:
    def __init__(self, driver: str, endpoint: Path, *, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._unregistered_since: float | None = seconds_since_boot()
        self._info = pb.PluginInfo(
            type="DRAPlugin",
            name=driver,
            endpoint=str(endpoint),
            supported_versions=[*service.supported_versions(), *health_stream.SERVICES],
        )

    @property
    def registered(self) -> bool:
        """By the kubelet's last word."""
        return self._unregistered_since is None

    @property
    def unregistered_for(self) -> float:
        """Seconds; 0 while it is registered."""
        return 0.0 if self._unregistered_since is None else seconds_since_boot() - self._unregistered_since

    def note(self, *, registered: bool) -> None:
        if registered:
            self._unregistered_since = None
        elif self._unregistered_since is None:
            self._unregistered_since = seconds_since_boot()

    def __mapping__(self) -> dict[str, Handler]:
        prefix = "/pluginregistration.Registration"
        unary = Cardinality.UNARY_UNARY
        return {
            f"{prefix}/GetInfo": Handler(self._get_info, unary, pb.InfoRequest, pb.PluginInfo),
            f"{prefix}/NotifyRegistrationStatus": Handler(
                self._notify, unary, pb.RegistrationStatus, pb.RegistrationStatusResponse
            ),
        }

    async def _get_info(self, stream: Stream[pb.InfoRequest, pb.PluginInfo]) -> None:
        await stream.recv_message()
        await stream.send_message(self._info)

    async def _notify(self, stream: Stream[pb.RegistrationStatus, pb.RegistrationStatusResponse]) -> None:
        status = await stream.recv_message()
        self.note(registered=status is not None and status.plugin_registered)
        self._on_change()
        if self.registered:
            log.info("registered with the kubelet")
        else:
            log.error("registration refused by the kubelet", error=status.error if status else "no message")
        await stream.send_message(pb.RegistrationStatusResponse())
