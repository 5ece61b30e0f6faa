"""The kubelet's side of the gRPC API of drivers for devices: finding them, and asking them to prepare claims."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from grpclib.client import Channel, UnaryStreamMethod, UnaryUnaryMethod

from gpusharing.agent.kubelet.pb import dra_pb2, health_pb2, registration_pb2
from gpusharing.demo.cluster import Json

_REGISTRATION: Final = "/pluginregistration.Registration"
_DRA: Final = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
_HEALTH: Final = "/v1.DRAResourceHealth"
_PATIENCE: Final = 45.0
"""Seconds, as the kubelet has it."""


class PrepareError(Exception):
    """What the driver said."""


@asynccontextmanager
async def _channel(socket: Path) -> AsyncIterator[Channel]:
    channel = Channel(path=str(socket))
    try:
        yield channel
    finally:
        channel.close()


async def register(socket: Path) -> Path:
    """Where the driver is called from now on."""
    async with _channel(socket) as channel:
        ask = UnaryUnaryMethod(
            channel, f"{_REGISTRATION}/GetInfo", registration_pb2.InfoRequest, registration_pb2.PluginInfo
        )
        info = await ask(registration_pb2.InfoRequest(), timeout=_PATIENCE)
        tell = UnaryUnaryMethod(
            channel,
            f"{_REGISTRATION}/NotifyRegistrationStatus",
            registration_pb2.RegistrationStatus,
            registration_pb2.RegistrationStatusResponse,
        )
        await tell(registration_pb2.RegistrationStatus(plugin_registered=True), timeout=_PATIENCE)
    return Path(info.endpoint)


class Prepared(NamedTuple):
    """A device of a claim."""

    requests: Sequence[str]
    """Of the claim, for which it was allocated."""
    cdi_devices: Sequence[str]

    def is_for(self, request: str | None) -> bool:
        """None: for the whole claim. An alternative counts as its request."""
        return request is None or any(one.partition("/")[0] == request for one in self.requests)


async def prepare(socket: Path, claim: Json) -> Sequence[Prepared]:
    """Raises PrepareError."""
    method = "NodePrepareResources", dra_pb2.NodePrepareResourcesRequest, dra_pb2.NodePrepareResourcesResponse
    answer = await _answer(socket, claim, *method)
    return [Prepared(one.request_names, one.cdi_device_ids) for one in answer.devices]


async def unprepare(socket: Path, claim: Json) -> None:
    """Raises PrepareError."""
    method = "NodeUnprepareResources", dra_pb2.NodeUnprepareResourcesRequest, dra_pb2.NodeUnprepareResourcesResponse
    await _answer(socket, claim, *method)


async def health(socket: Path) -> AsyncIterator[list[Any]]:
    """Of all devices in use, whenever it changes."""
    async with _channel(socket) as channel:
        method = UnaryStreamMethod(
            channel,
            f"{_HEALTH}/NodeWatchResources",
            health_pb2.NodeWatchResourcesRequest,
            health_pb2.NodeWatchResourcesResponse,
        )
        async with method.open() as stream:
            await stream.send_message(health_pb2.NodeWatchResourcesRequest(), end=True)
            async for told in stream:
                yield list(told.devices)


async def _answer(socket: Path, claim: Json, name: str, request: Any, reply: Any) -> Any:
    """About this claim. `request`, `reply`: the types of the method's messages."""
    metadata = claim["metadata"]
    named = dra_pb2.Claim(namespace=metadata["namespace"], uid=metadata["uid"], name=metadata["name"])
    async with _channel(socket) as channel:
        method = UnaryUnaryMethod(channel, f"{_DRA}/{name}", request, reply)
        told = await method(request(claims=[named]), timeout=_PATIENCE)
    answer = told.claims[named.uid]
    if answer.error:
        raise PrepareError(answer.error)
    return answer
