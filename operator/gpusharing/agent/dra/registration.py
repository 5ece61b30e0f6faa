"""How the kubelet finds us: a socket in its registry directory that tells where the real one is."""

from pathlib import Path

import structlog
from grpclib.const import Cardinality, Handler
from grpclib.server import Stream

from gpusharing.agent.dra import health, service
from gpusharing.agent.dra.pb import registration_pb2 as pb

log = structlog.get_logger(__name__)


class RegistrationService:
    def __init__(self, driver: str, endpoint: Path) -> None:
        self.registered = False
        """By the kubelet's last word."""
        self._info = pb.PluginInfo(
            type="DRAPlugin",
            name=driver,
            endpoint=str(endpoint),
            supported_versions=[*service.supported_versions(), *health.SERVICES],
        )

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
        self.registered = status is not None and status.plugin_registered
        if self.registered:
            log.info("registered with the kubelet")
        else:
            log.error("the kubelet refused the registration", error=status.error if status else "no message")
        await stream.send_message(pb.RegistrationStatusResponse())
