import aiohttp

from building import policy
from gpusharing.api.sharing.policy_status import SharingPolicyStatus
from gpusharing.controller.endpoints import Readiness, pages
from gpusharing.controller.metrics import Metrics, Result
from gpusharing.core.intents import PatchStatus
from gpusharing.kube.address import Address
from gpusharing.kube.http_server import serving


class Health:
    alive = True
    readiness = Readiness.NOT_READY


async def test_health_and_metrics() -> None:
    health, metrics = Health(), Metrics()
    async with (
        serving(
            Address("127.0.0.1", 0),
            pages(is_alive=lambda: health.alive, readiness=lambda: health.readiness, metrics=metrics),
        ) as address,
        aiohttp.ClientSession(f"http://{address.host}:{address.port}") as client,
    ):

        async def code(path: str) -> int:
            async with client.get(path) as response:
                return response.status

        assert (await code("/healthz"), await code("/readyz")) == (200, 503)
        health.readiness = Readiness.STANDING_BY
        assert await code("/readyz") == 200
        health.alive, health.readiness = False, Readiness.READY
        assert (await code("/healthz"), await code("/readyz")) == (503, 200)
        metrics.applied(PatchStatus(policy(), SharingPolicyStatus()), Result.CONFLICT)
        async with client.get("/metrics") as response:
            assert response.content_type == "text/plain"
            text = await response.text()
        assert 'gpusharing_intents_total{kind="PatchStatus",result="conflict"} 1.0' in text
        assert 'gpusharing_intents_total{kind="ReplaceSpec",result="failed"} 0.0' in text
