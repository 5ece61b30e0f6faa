"""The kubelet's side of the registration of a driver."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from grpclib.client import Channel, UnaryUnaryMethod

from gpusharing.agent.kubelet.pb import registration_pb2 as pb
from harness.eventually import PATIENCE

_SERVICE = "/pluginregistration.Registration"


async def notify(registration: Path, *, registered: bool, error: str = "") -> None:
    async with _channel(registration) as channel:
        method = UnaryUnaryMethod(
            channel, f"{_SERVICE}/NotifyRegistrationStatus", pb.RegistrationStatus, pb.RegistrationStatusResponse
        )
        await method(pb.RegistrationStatus(plugin_registered=registered, error=error), timeout=PATIENCE)


async def info(registration: Path) -> pb.PluginInfo:
    async with _channel(registration) as channel:
        method = UnaryUnaryMethod(channel, f"{_SERVICE}/GetInfo", pb.InfoRequest, pb.PluginInfo)
        return await method(pb.InfoRequest(), timeout=PATIENCE)


@asynccontextmanager
async def _channel(registration: Path) -> AsyncIterator[Channel]:
    channel = Channel(path=str(registration))
    try:
        yield channel
    finally:
        channel.close()
