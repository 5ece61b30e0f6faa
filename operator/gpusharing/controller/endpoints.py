"""/healthz, /readyz and /metrics: the operator's paths."""

from collections.abc import Callable
from enum import StrEnum
from http import HTTPStatus

from gpusharing.controller.metrics import Metrics
from gpusharing.kube.http_server import Answer, Pages


class Readiness(StrEnum):
    READY = "ok"
    STANDING_BY = "standing by"
    NOT_READY = "not ready"


def pages(*, is_alive: Callable[[], bool], readiness: Callable[[], Readiness], metrics: Metrics) -> Pages:
    async def healthz() -> Answer:
        good = is_alive()
        return _probed(good, "ok" if good else "stuck")

    async def readyz() -> Answer:
        state = readiness()
        return _probed(state is not Readiness.NOT_READY, state)

    async def exposition() -> Answer:
        return Answer(content_type="text/plain; version=0.0.4; charset=utf-8", body=metrics.exposition())

    return {"/healthz": healthz, "/readyz": readyz, "/metrics": exposition}


def _probed(good: bool, says: str) -> Answer:
    return Answer(status=HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE, body=f"{says}\n".encode())
