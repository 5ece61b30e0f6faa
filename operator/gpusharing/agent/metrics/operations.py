"""How long operations on the GPUs take. Measured where the rest of the agent speaks to them, so that waits count."""

import inspect
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar, cast

from gpusharing.agent.metrics import catalogue
from gpusharing.agent.metrics.exposition import Counter, Histogram
from gpusharing.nvidia.gpu_node import GpuNode

P = ParamSpec("P")
T = TypeVar("T")

_SECONDS: Final = (0.0005, 0.002, 0.01, 0.05, 0.25, 1, 5, 20, 60)


class OperationMeter:
    def __init__(self) -> None:
        self._duration = Histogram(catalogue.OPERATION_DURATION, _SECONDS)
        self._failures = Counter(catalogue.OPERATION_FAILURES)
        self.families = (self._duration, self._failures)

    def metered(self, hardware: GpuNode) -> GpuNode:
        """The same GPUs; whatever the protocol has is passed on."""
        return cast("GpuNode", _Metered(hardware, self))

    def timed(self, operation: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        name = operation.__name__

        @wraps(operation)
        async def timed(*arguments: P.args, **keywords: P.kwargs) -> T:
            began = time.perf_counter()
            try:
                return await operation(*arguments, **keywords)
            except BaseException:
                self._failures.increase(name)
                raise
            finally:
                self._duration.observe(time.perf_counter() - began, name)

        return timed


class _Metered:
    def __init__(self, hardware: GpuNode, meter: OperationMeter) -> None:
        for name, declared in vars(GpuNode).items():
            if not name.startswith("_"):
                operation = getattr(hardware, name)
                setattr(self, name, meter.timed(operation) if inspect.iscoroutinefunction(declared) else operation)
