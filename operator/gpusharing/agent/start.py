"""How an agent begins: it serves at once, finds out which GPUs there are, and finishes what was begun before."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from gpusharing.kube.retry import Backoff
from gpusharing.nvidia.errors import DriverExchangedError, HardwareError
from gpusharing.nvidia.gpu_node import GpuNode

log = structlog.get_logger(__name__)


class Start:
    """How far the agent has come."""

    def __init__(self) -> None:
        self.gpus_known = asyncio.Event()
        self.problem: HardwareError | None = None
        """Why the GPUs are not known yet."""

    async def run(
        self, hardware: GpuNode, survey: Callable[[], Awaitable[None]], *, on_change: Callable[[], None]
    ) -> None:
        """Until the driver has told of the GPUs."""
        is_open = False
        for delay in Backoff():
            try:
                if not is_open:
                    await hardware.open()
                    is_open = True
                await survey()
            except DriverExchangedError:
                # A library that is loaded cannot be exchanged: the next agent loads the new one.
                raise
            except HardwareError as error:
                if str(error) != str(self.problem):
                    log.error("GPU driver not available", error=str(error))  # noqa: TRY400 (it is the driver's)
                    self.problem = error
                    on_change()
            else:
                break
            await asyncio.sleep(delay)
        if self.problem:
            log.info("GPU driver available")
        self.problem = None

    async def wait(self) -> None:
        """Until the GPUs are known, and nobody has come before the recovery of what earlier agents did on them."""
        if self.problem:
            raise self.problem
        await self.gpus_known.wait()
