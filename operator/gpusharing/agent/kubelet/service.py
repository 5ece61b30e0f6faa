"""The kubelet's gRPC API for DRA drivers, v1 and v1beta1: same messages, two names."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeVar

import structlog
from grpclib.const import Cardinality, Handler
from grpclib.server import Stream

from gpusharing.agent.claims.budget import KUBELETS_PATIENCE
from gpusharing.agent.claims.reading import ClaimRef, PrepareError
from gpusharing.agent.kubelet.pb import dra_pb2 as pb
from gpusharing.agent.state.models import PreparedClaim, PreparedDevice
from gpusharing.core.claims import allocation

T = TypeVar("T")

log = structlog.get_logger(__name__)

VERSIONS: Final = ("v1", "v1beta1")
"""The kubelet takes the first that it knows."""

_SERVICE: Final = "k8s.io.kubelet.pkg.apis.dra.{version}.DRAPlugin"


def supported_versions() -> list[str]:
    return [f"{version}.DRAPlugin" for version in VERSIONS]


class DraService:
    def __init__(
        self,
        prepare: Callable[[ClaimRef, float], Awaitable[PreparedClaim]],
        unprepare: Callable[[ClaimRef, float], Awaitable[None]],
    ) -> None:
        """Both are told how many seconds the kubelet waits."""
        self._prepare = prepare
        self._unprepare = unprepare

    def __mapping__(self) -> dict[str, Handler]:
        unary = Cardinality.UNARY_UNARY
        mapping = {}
        for version in VERSIONS:
            service = "/" + _SERVICE.format(version=version)
            mapping[f"{service}/NodePrepareResources"] = Handler(
                self._node_prepare, unary, pb.NodePrepareResourcesRequest, pb.NodePrepareResourcesResponse
            )
            mapping[f"{service}/NodeUnprepareResources"] = Handler(
                self._node_unprepare, unary, pb.NodeUnprepareResourcesRequest, pb.NodeUnprepareResourcesResponse
            )
        return mapping

    async def _node_prepare(
        self, stream: Stream[pb.NodePrepareResourcesRequest, pb.NodePrepareResourcesResponse]
    ) -> None:
        claims = await _claims(stream)
        answers = await _together([self._prepare_one(claim, _patience(stream)) for claim in claims])
        await stream.send_message(
            pb.NodePrepareResourcesResponse(
                claims={claim.uid: answer for claim, answer in zip(claims, answers, strict=True)}
            )
        )

    async def _node_unprepare(
        self, stream: Stream[pb.NodeUnprepareResourcesRequest, pb.NodeUnprepareResourcesResponse]
    ) -> None:
        claims = await _claims(stream)
        answers = await _together([self._unprepare_one(claim, _patience(stream)) for claim in claims])
        await stream.send_message(
            pb.NodeUnprepareResourcesResponse(
                claims={claim.uid: answer for claim, answer in zip(claims, answers, strict=True)}
            )
        )

    async def _prepare_one(self, claim: ClaimRef, within: float) -> pb.NodePrepareResourceResponse:
        with _named_in_logs(claim):
            try:
                prepared = await self._prepare(claim, within)
            except Exception as error:  # noqa: BLE001
                return pb.NodePrepareResourceResponse(error=_reason("claim not prepared", claim, error))
        return pb.NodePrepareResourceResponse(devices=[_device(device) for device in prepared.devices])

    async def _unprepare_one(self, claim: ClaimRef, within: float) -> pb.NodeUnprepareResourceResponse:
        with _named_in_logs(claim):
            try:
                await self._unprepare(claim, within)
            except Exception as error:  # noqa: BLE001
                return pb.NodeUnprepareResourceResponse(error=_reason("claim not unprepared", claim, error))
        return pb.NodeUnprepareResourceResponse()


async def _together(answers: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    # Most calls are about one claim, which needs no task of its own.
    return [await answers[0]] if len(answers) == 1 else await asyncio.gather(*answers)


def _named_in_logs(claim: ClaimRef) -> AbstractContextManager[None]:
    """Whatever is logged meanwhile, wherever, says which claim it is about."""
    return structlog.contextvars.bound_contextvars(claim=claim.display_name, claim_uid=claim.uid)


def _reason(event: str, claim: ClaimRef, error: Exception) -> str:
    if isinstance(error, PrepareError):
        log.warning(event, error=str(error))
        return str(error)
    # A mistake of ours concerns this claim only: an error of the call would take the answers for the others with it.
    log.error(event, exc_info=error)
    return f"claim {claim.display_name}: {type(error).__name__}: {error}"


def _patience(stream: Stream[Any, Any]) -> float:
    """By the deadline that the call has with it."""
    return stream.deadline.time_remaining() if stream.deadline else KUBELETS_PATIENCE


async def _claims(stream: Stream[Any, Any]) -> list[ClaimRef]:
    request = await stream.recv_message()
    claims: Iterable[pb.Claim] = request.claims if request else ()
    return [ClaimRef(uid=claim.uid, namespace=claim.namespace, name=claim.name) for claim in claims]


def _device(device: PreparedDevice) -> pb.Device:
    return pb.Device(
        # The kubelet compares with the names of requests; it knows nothing of subrequests.
        request_names=[allocation.base_request(device.request)],
        pool_name=device.pool,
        device_name=device.device,
        cdi_device_ids=device.cdi_devices,
        share_id=device.share_id,
    )
