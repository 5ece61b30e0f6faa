"""The kubelet's side of the agent's socket."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from grpclib.client import Channel, UnaryUnaryMethod

from gpusharing.agent.kubelet.pb import dra_pb2 as pb
from gpusharing.api.dra import ResourceClaim

_SERVICE = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"


class KubeletClient:
    def __init__(self, kubelet_root: Path) -> None:
        self._channel = Channel(path=str(kubelet_root / "plugins" / "gpu.nvidia.com" / "dra.sock"))
        self._prepare = UnaryUnaryMethod(
            self._channel,
            f"{_SERVICE}/NodePrepareResources",
            pb.NodePrepareResourcesRequest,
            pb.NodePrepareResourcesResponse,
        )
        self._unprepare = UnaryUnaryMethod(
            self._channel,
            f"{_SERVICE}/NodeUnprepareResources",
            pb.NodeUnprepareResourcesRequest,
            pb.NodeUnprepareResourcesResponse,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    async def prepare(self, *claims: ResourceClaim) -> float:
        """Seconds that it took. No claim at all makes an empty call."""
        request = pb.NodePrepareResourcesRequest(claims=_references(claims))
        began = time.perf_counter()
        response = await self._prepare(request)
        took = time.perf_counter() - began
        errors = [answer.error for answer in response.claims.values() if answer.error]
        if errors or len(response.claims) != len(claims):
            raise RuntimeError(f"not prepared: {errors}")
        return took

    async def unprepare(self, *claims: ResourceClaim) -> float:
        """Likewise."""
        request = pb.NodeUnprepareResourcesRequest(claims=_references(claims))
        began = time.perf_counter()
        response = await self._unprepare(request)
        took = time.perf_counter() - began
        if errors := [answer.error for answer in response.claims.values() if answer.error]:
            raise RuntimeError(f"not unprepared: {errors}")
        return took


def _references(claims: Sequence[ResourceClaim]) -> list[pb.Claim]:
    return [
        pb.Claim(namespace=claim.metadata.namespace, uid=claim.metadata.uid, name=claim.metadata.name)
        for claim in claims
    ]


async def reachable(kubelet_root: Path, *, within: float) -> None:
    """Returns when the agent answers the kubelet."""
    async with asyncio.timeout(within):
        while True:
            try:
                async with KubeletClient(kubelet_root) as client:
                    await client.prepare()
            except OSError:
                await asyncio.sleep(0.005)
            else:
                return
