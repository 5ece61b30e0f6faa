"""What the kubelet asks for: how often, how long it takes, and what is in the way."""

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from gpusharing.agent.claims.budget import OutOfTimeError
from gpusharing.agent.claims.reading import ClaimRef, PrepareError
from gpusharing.agent.containers.cdi import UnresolvableError
from gpusharing.agent.metrics import catalogue
from gpusharing.agent.metrics.exposition import Counter, Histogram
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.agent.state.records import Records
from gpusharing.agent.walls.claim_walls import NoWallError
from gpusharing.api import names
from gpusharing.core.claims.settings import SettingsError
from gpusharing.kube.transport import ApiError, UnreachableError
from gpusharing.nvidia.errors import DriverDownError, HardwareError

_SECONDS: Final = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_MIXED: Final = "Mixed"


class Reason(StrEnum):
    """What was in the way of a claim."""

    API_SERVER = "api_server"
    """It did not answer, or not with the claim."""
    STALE = "stale"
    """The claim is another one than the kubelet means, or is not allocated any more."""
    REFUSED = "refused"
    """The claim asks for what it cannot have, or what another one holds."""
    CDI = "cdi"
    """NVIDIA's CDI spec has no such GPU."""
    MEMORY_WALL = "memory_wall"
    GPU = "gpu"
    DRIVER = "driver"
    """It is down or hangs."""
    FILES = "files"
    """The state or CDI directory cannot be written."""
    DEADLINE = "deadline"
    """It was not ready when the kubelet's deadline came: something is slow. The kubelet tries again."""
    ABANDONED = "abandoned"
    """The kubelet did not wait for the answer."""
    INTERNAL = "internal"
    """A mistake of ours."""


# The first that fits.
_REASONS: Final[tuple[tuple[type[Exception] | tuple[type[Exception], ...], Reason], ...]] = (
    ((ApiError, UnreachableError), Reason.API_SERVER),
    (OutOfTimeError, Reason.DEADLINE),
    (SettingsError, Reason.REFUSED),
    (UnresolvableError, Reason.CDI),
    (NoWallError, Reason.MEMORY_WALL),
    (DriverDownError, Reason.DRIVER),
    (HardwareError, Reason.GPU),
    (OSError, Reason.FILES),
)


class ClaimMeter:
    def __init__(self, records: Records) -> None:
        self._records = records
        every_reason = [(reason.value,) for reason in Reason]
        self._prepares = Counter(catalogue.PREPARES, ())
        self._prepare_failures = Counter(catalogue.PREPARE_FAILURES, *every_reason)
        self._prepare_duration = Histogram(catalogue.PREPARE_DURATION, _SECONDS)
        self._unprepares = Counter(catalogue.UNPREPARES, ())
        self._unprepare_failures = Counter(catalogue.UNPREPARE_FAILURES, *every_reason)
        self._unprepare_duration = Histogram(catalogue.UNPREPARE_DURATION, _SECONDS)
        self.families = (
            self._prepares,
            self._prepare_failures,
            self._prepare_duration,
            self._unprepares,
            self._unprepare_failures,
            self._unprepare_duration,
        )

    def metered_prepare(
        self, prepare: Callable[[ClaimRef, float], Awaitable[PreparedClaim]]
    ) -> Callable[[ClaimRef, float], Awaitable[PreparedClaim]]:
        async def metered(ref: ClaimRef, within: float) -> PreparedClaim:
            began = time.perf_counter()
            with _counting(self._prepares, self._prepare_failures):
                claim = await prepare(ref, within)
            self._prepare_duration.observe(time.perf_counter() - began, _sharing(claim))
            return claim

        return metered

    def metered_unprepare(
        self, unprepare: Callable[[ClaimRef, float], Awaitable[None]]
    ) -> Callable[[ClaimRef, float], Awaitable[None]]:
        async def metered(ref: ClaimRef, within: float) -> None:
            claim = self._records.claims.get(ref.uid)
            began = time.perf_counter()
            with _counting(self._unprepares, self._unprepare_failures):
                await unprepare(ref, within)
            if claim is not None:
                self._unprepare_duration.observe(time.perf_counter() - began, _sharing(claim))

        return metered


@contextmanager
def _counting(calls: Counter, failures: Counter) -> Iterator[None]:
    calls.increase()
    try:
        yield
    except Exception as error:
        failures.increase(_reason(error))
        raise
    except BaseException:
        failures.increase(Reason.ABANDONED)
        raise


def _reason(error: Exception) -> Reason:
    cause = error
    if isinstance(error, PrepareError):
        if not isinstance(error.__cause__, Exception):
            return Reason.STALE
        cause = error.__cause__
    return next((reason for kinds, reason in _REASONS if isinstance(cause, kinds)), Reason.INTERNAL)


def _sharing(claim: PreparedClaim) -> str:
    ways = {names.sharing_of_device(device.device) for device in claim.devices}
    return str(ways.pop()) if len(ways) == 1 else _MIXED
