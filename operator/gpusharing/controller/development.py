"""The operator under `kopf run`, where the main task is Kopf's."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import structlog

from gpusharing.controller import ending
from gpusharing.controller.running import Operator, Options, running
from gpusharing.kube.address import Address

log = structlog.get_logger(__name__)


async def begin() -> Operator:
    """When it leads. It goes to where kubectl would go."""
    kubeconfig = Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config")
    begun: asyncio.Future[Operator] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(_run(Options(kubeconfig=kubeconfig, listen=Address("127.0.0.1", 0)), begun))
    operator = await begun

    async def stop() -> None:
        await operator.stop()
        task.cancel()
        await asyncio.wait({task})

    return replace(operator, stop=stop)


async def _run(options: Options, begun: "asyncio.Future[Operator]") -> None:
    try:
        async with running(options) as operator:
            begun.set_result(operator)
            await asyncio.Event().wait()
    except Exception as error:
        if not ending.log_causes(error):
            log.exception("operator failed")
        # Kopf knows nothing of this task, and would go on without it.
        os.kill(os.getpid(), signal.SIGTERM)
