"""`gpusharing operator`: Kopf in a process of ours."""

import asyncio
import signal

import kopf
import structlog

# Kopf knows its handlers once they have been imported.
from gpusharing.controller import handlers as handlers  # noqa: PLC0414
from gpusharing.controller.running import Options, running

log = structlog.get_logger(__name__)


async def operate(options: Options) -> None:
    """Runs until SIGTERM or SIGINT, or until it has to begin anew: one or more errors, which say why."""
    _end_by_signal()
    async with running(options) as operator:
        await kopf.operator(memo=kopf.Memo(operator=operator), clusterwide=True)
    log.info("stopped")


def _end_by_signal() -> None:
    """Until Kopf puts its own way of ending in the place of this one."""
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 (for mypy: a coroutine runs in a task)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
