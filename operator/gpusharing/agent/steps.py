"""The steps of the agent's work. Each fails for itself: it is told and tried again later, and all others go on."""

import asyncio
import math
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, TypeVar

import structlog

from gpusharing.agent.problems import DirectoryGoneError, Problem, Reason, SocketTakenError, not_writable
from gpusharing.kube.clock import seconds_since_boot
from gpusharing.kube.retry import Backoff
from gpusharing.kube.transport import ApiError, UnreachableError
from gpusharing.nvidia.errors import DriverExchangedError, HardwareError

T = TypeVar("T")

log = structlog.get_logger(__name__)

_BACKOFF: Final = Backoff()
# Seconds. The API server refuses now and then what it takes a moment later.
_PATIENCE: Final = 10.0
_OVERDUE: Final = 1.0
_FORESEEN: Final = (ApiError, UnreachableError, HardwareError, OSError)
# The next process loads the library of another driver, and has the node's directories; this one cannot.
_ENDS: Final = (DriverExchangedError, DirectoryGoneError)
# A message that changes each time must not fill the log with tracebacks.
_TRACEBACKS: Final = 100


class InternalErrors:
    """Errors that nobody foresaw: each is counted, and logged with its traceback once."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """By the step in which they were met."""
        self._logged: set[tuple[str, str]] = set()

    def record(self, step: str, error: Exception, **about: str) -> str:
        """Returns what to tell people."""
        self.counts[step] += 1
        name, place = type(error).__name__, _place(error)
        is_new = (name, place) not in self._logged and len(self._logged) < _TRACEBACKS
        self._logged.add((name, place))
        fields = {"step": step, "error": f"{name}: {error}", "at": place, **about}
        log.error("internal error", **fields, exc_info=error if is_new else None)
        where = "".join(f" of {what} {value}" for what, value in about.items())
        return f"{step}{where} failed with {name} at {place}: report this bug with the agent's log"


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('gpusharing/')[2]}:{frames[-1].lineno}" if frames else "nowhere"


@dataclass(slots=True)
class _Failing:
    problem: Problem | None
    """None: it is told elsewhere, or cannot be told."""
    told_at: float
    delays: Iterator[float]
    again_at: float


class Steps:
    def __init__(self, internal_errors: InternalErrors, *, clock: Callable[[], float] = seconds_since_boot) -> None:
        self._internal_errors = internal_errors
        self._clock = clock
        self._failing: dict[tuple[str, ...], _Failing] = {}

    @property
    def retry_at(self) -> float:
        """When the next step that has failed is to be tried again."""
        now = self._clock()
        # One whose time came during a round is tried in the next, which need not come at once: nobody may want it.
        moments = (one.again_at if one.again_at > now else now + _OVERDUE for one in self._failing.values())
        return min(moments, default=math.inf)

    @property
    def problems(self) -> list[Problem]:
        """What does not pass by itself, and is told nowhere else."""
        now = self._clock()
        return [failing.problem for failing in self._failing.values() if failing.problem and now >= failing.told_at]

    @property
    def have_failed(self) -> bool:
        return bool(self._failing)

    def has_failed(self, name: str) -> bool:
        return any(key[0] == name for key in self._failing)

    def retry_now(self) -> None:
        """What kept them from working may be over."""
        for failing in self._failing.values():
            failing.delays, failing.again_at = iter(_BACKOFF), -math.inf

    async def run(self, name: str, work: Callable[[], Awaitable[T]], **about: str) -> T | None:
        """Its result. None if it fails, or has failed and it is not time yet to try it again."""
        failing = self._failing.get((name, *about.values()))
        if failing and self._clock() < failing.again_at:
            return None
        with self.step(name, **about):
            return await work()
        return None

    async def keep_running(self, work: Callable[[], Awaitable[None]]) -> None:
        """Begins it again when it fails."""
        name = work.__qualname__
        delays = iter(_BACKOFF)
        while True:
            began = self._clock()
            # Well again if it runs for so long.
            settled = asyncio.get_running_loop().call_later(_BACKOFF.last, self._failing.pop, (name,), None)
            try:
                with self.step(name):
                    await work()
                    return
            finally:
                settled.cancel()
            if self._clock() - began > _BACKOFF.last:
                delays = iter(_BACKOFF)
            await asyncio.sleep(next(delays))

    async def for_each(
        self, name: str, items: Mapping[str, T], work: Callable[[T], Awaitable[None]], *, kind: str
    ) -> None:
        """Each for itself. `items` are by the names under which people know them."""
        self.forget_others(name, items)
        for item, value in items.items():
            with self.step(name, **{kind: item}):
                await work(value)

    def without_failing(self, name: str, items: Sequence[str], work: Callable[[Sequence[str]], T], *, kind: str) -> T:
        """What comes of all of them, or else of those for which it does not fail alone."""
        try:
            result = work(items)
        except Exception:
            well: list[str] = []
            for item in items:
                with self.step(name, **{kind: item}):
                    work([item])
                    well.append(item)
            if len(well) == len(items):
                raise
            return work(well)
        for item in items:
            self._failing.pop((name, item), None)
        return result

    def forget_others(self, name: str, items: Container[str]) -> None:
        """Nobody tries what is not there any more."""
        others = [key for key in self._failing if key[0] == name and key[1:] and key[1] not in items]
        for key in others:
            del self._failing[key]

    def step(self, name: str, **about: str) -> "_Step":
        """Around what may fail for itself."""
        return _Step(self, name, about)

    def note(self, name: str, about: Mapping[str, str], error: Exception | None) -> None:
        """How a step ended."""
        key = (name, *about.values())
        if error is None:
            if self._failing.pop(key, None):
                log.info("step works again", step=name, **about)
        elif isinstance(error, _FORESEEN):
            log.warning("step failed", step=name, error=str(error), **about)
            self._fails(key, _problem(name, error), patience=_PATIENCE if isinstance(error, ApiError) else 0)
        else:
            self._fails(key, Problem(Reason.INTERNAL_ERROR, self._internal_errors.record(name, error, **about)))

    def _fails(self, key: tuple[str, ...], problem: Problem | None, *, patience: float = 0) -> None:
        now = self._clock()
        failing = self._failing.get(key)
        delays = failing.delays if failing else iter(_BACKOFF)
        told_at = min(failing.told_at if failing else math.inf, now + patience)
        self._failing[key] = _Failing(problem, told_at, delays, now + next(delays))


class _Step:
    def __init__(self, steps: Steps, name: str, about: Mapping[str, str]) -> None:
        self._steps = steps
        self._name = name
        self._about = about

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is None:
            self._steps.note(self._name, self._about, None)
        elif isinstance(error, Exception) and not isinstance(error, _ENDS):
            self._steps.note(self._name, self._about, error)
            return True
        return False


def _problem(name: str, error: Exception) -> Problem | None:
    match error:
        case SocketTakenError():
            return Problem(Reason.SOCKET_TAKEN, str(error))
        case OSError():
            return not_writable(error)
        case ApiError():
            return Problem(Reason.WRITE_REFUSED, f"{name} failed: {error}")
        case _:
            # An API server that is away cannot be told anything, and GPUs have conditions of their own.
            return None
