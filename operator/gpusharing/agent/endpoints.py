"""/healthz, /readyz and /metrics: the operator's paths."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from gpusharing.agent.kubelet.server import PluginServer
from gpusharing.agent.metrics.exposition import CONTENT_TYPE
from gpusharing.agent.start import Start
from gpusharing.kube.http_server import Answer, Pages
from gpusharing.kube.watches import Watches


def pages(
    *,
    start: Start,
    server: PluginServer,
    is_published: Callable[[], bool],
    watches: Watches,
    metrics: Callable[[], Awaitable[bytes]],
) -> Pages:
    async def healthz() -> Answer:
        """That there is an answer shows that the event loop turns. A driver that is away or hangs is a condition of the
        NodeSharing: an agent that is started anew for that could do no more than this one."""
        return _probed(None)

    async def readyz() -> Answer:
        if not server.registered:
            return _probed("the kubelet has not registered the driver")
        if watches.deaf:
            return _probed(str(watches.deaf))
        if not start.gpus_known.is_set():
            return _probed(str(start.problem or "the GPUs of this node are not known yet"))
        return _probed(None if is_published() else "the devices are not published yet")

    async def exposition() -> Answer:
        return Answer(content_type=CONTENT_TYPE, body=await metrics())

    return {"/healthz": healthz, "/readyz": readyz, "/metrics": exposition}


def _probed(problem: str | None) -> Answer:
    if problem is None:
        return Answer(body=b"ok\n")
    return Answer(status=HTTPStatus.SERVICE_UNAVAILABLE, body=f"{problem}\n".encode())
