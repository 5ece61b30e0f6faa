"""The kubelet's gRPC API for the health of devices, v1 and v1alpha1: it shows in the status of the pods that use them.

The kubelet watches as long as we are registered. What it has not heard of for as long as we say is unknown to it.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Final

from grpclib.const import Cardinality, Handler
from grpclib.server import Stream

from gpusharing.agent.health.conditions import messages
from gpusharing.agent.kubelet.pb import health_pb2 as pb
from gpusharing.agent.state.models import PreparedClaim, PreparedDevice
from gpusharing.core.publishing.gpu_health import Effect, Finding

SERVICES: Final = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
"""The kubelet takes the first that it knows."""

_GOOD_FOR: Final = 30
_AGAIN_AFTER: Final = 10.0
# The kubelet cuts bytes, also in the middle of a letter.
_LONGEST_MESSAGE: Final = 1024

_Watch = Stream[pb.NodeWatchResourcesRequest, pb.NodeWatchResourcesResponse]
_Told = dict[tuple[str, str], tuple[Finding, ...]]


class HealthService:
    def __init__(
        self,
        claims: Callable[[], Iterable[PreparedClaim]],
        findings: Callable[[PreparedDevice], tuple[Finding, ...]],
    ) -> None:
        self._claims = claims
        self._findings = findings
        self._changed = asyncio.Event()

    def __mapping__(self) -> dict[str, Handler]:
        handler = Handler(
            self._watch, Cardinality.UNARY_STREAM, pb.NodeWatchResourcesRequest, pb.NodeWatchResourcesResponse
        )
        return {f"/{service}/NodeWatchResources": handler for service in SERVICES}

    def tell(self) -> None:
        """Something may be otherwise now."""
        # For all that wait; who comes from now on waits for the next.
        self._changed.set()
        self._changed = asyncio.Event()

    async def _watch(self, stream: _Watch) -> None:
        await stream.recv_message()
        while True:
            told = self._now()
            await stream.send_message(_message(told))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_AFTER):
                    while self._now() == told:
                        await self._changed.wait()

    def _now(self) -> _Told:
        """The devices in use."""
        # The shares of a GPU are one device.
        devices = {(device.pool, device.device): device for claim in self._claims() for device in claim.devices}
        return {key: self._findings(device) for key, device in devices.items()}


def _message(told: _Told) -> pb.NodeWatchResourcesResponse:
    now = int(time.time())
    return pb.NodeWatchResourcesResponse(
        devices=[
            pb.DeviceHealth(
                device=pb.DeviceIdentifier(pool_name=pool, device_name=device),
                health=_health(found),
                last_updated_time=now,
                health_check_timeout_seconds=_GOOD_FOR,
                message=messages(found).encode()[:_LONGEST_MESSAGE].decode(errors="ignore"),
            )
            for (pool, device), found in told.items()
        ]
    )


def _health(found: Iterable[Finding]) -> pb.HealthStatus:
    is_ill = any(finding.effect is Effect.NO_SCHEDULE for finding in found)
    return pb.HealthStatus.UNHEALTHY if is_ill else pb.HealthStatus.HEALTHY
