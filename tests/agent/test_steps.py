"""The steps of an agent's work, each of which fails for itself."""

import errno
import re
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import structlog

from gpusharing.agent.problems import Reason
from gpusharing.agent.steps import InternalErrors, Steps
from gpusharing.kube.transport import ApiError, UnreachableError
from gpusharing.nvidia.errors import DriverExchangedError, DriverHungError


@dataclass
class Clock:
    now: float = 0

    def __call__(self) -> float:
        return self.now


@dataclass
class Work:
    """Fails with this, if there is any."""

    error: Exception | None = None
    attempts: int = 0

    async def __call__(self) -> str:
        self.attempts += 1
        if self.error:
            raise self.error
        return "done"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def steps(clock: Clock) -> Steps:
    return Steps(InternalErrors(), clock=clock)


FULL = OSError(errno.ENOSPC, "No space left on device", "/state/gpus/a.json")
REFUSED = ApiError("PUT", "/x", 403, "Forbidden", "no")
TOLD = {
    "a full disk": (FULL, Reason.STATE_NOT_WRITABLE, "/state/gpus/a.json cannot be written: No space left on device"),
    "a bug": (
        KeyError("x"),
        Reason.INTERNAL_ERROR,
        "a failed with KeyError at .*test_steps.py:[0-9]+: report this bug",
    ),
}


@pytest.mark.parametrize(("error", "reason", "message"), TOLD.values(), ids=TOLD)
async def test_what_fails_is_told_until_it_works(steps: Steps, error: Exception, reason: Reason, message: str) -> None:
    work = Work(error)
    assert await steps.run("a", work) is None
    [problem] = steps.problems
    assert problem.reason is reason
    assert re.match(message, problem.message)
    work.error = None
    steps.retry_now()
    assert await steps.run("a", work) == "done"
    assert (steps.problems, steps.have_failed) == ([], False)


@pytest.mark.parametrize("error", [UnreachableError("away"), DriverHungError("hangs")])
async def test_what_cannot_be_told_or_is_told_elsewhere(steps: Steps, error: Exception) -> None:
    await steps.run("a", Work(error))
    assert (steps.problems, steps.have_failed) == ([], True)


async def test_a_refusal_is_told_when_it_lasts(steps: Steps, clock: Clock) -> None:
    work = Work(REFUSED)
    await steps.run("a", work)
    assert steps.problems == []
    clock.now = 20
    await steps.run("a", work)
    assert [problem.reason for problem in steps.problems] == [Reason.WRITE_REFUSED]


async def test_whatever_wakes_it_a_failed_step_waits_for_its_time(steps: Steps, clock: Clock) -> None:
    failing, well = Work(REFUSED), Work()
    while clock.now < 60:
        await steps.run("failing", failing)
        await steps.run("well", well)
        clock.now += 0.05
    assert well.attempts > 1000
    assert failing.attempts < 20
    assert clock.now < steps.retry_at < clock.now + 23
    clock.now = steps.retry_at + 1
    # Nobody has tried it although its time has come: that is no reason to hurry.
    assert steps.retry_at == clock.now + 1
    steps.retry_now()
    await steps.run("failing", failing)
    assert steps.retry_at < clock.now + 0.31


async def test_one_that_fails_concerns_no_other(steps: Steps) -> None:
    done: list[str] = []

    async def do(item: str) -> None:
        if item == "b":
            raise ZeroDivisionError
        done.append(item)

    items = {item: item for item in "abc"}
    await steps.for_each("work", items, do, kind="claim")
    assert done == ["a", "c"]
    assert ["work of claim b" in problem.message for problem in steps.problems] == [True]
    del items["b"]
    await steps.for_each("work", items, do, kind="claim")
    assert not steps.have_failed


def test_a_joint_decision_goes_without_those_that_fail_alone(steps: Steps) -> None:
    def decide(items: Sequence[str]) -> list[str]:
        if "b" in items:
            raise ZeroDivisionError
        return [*items]

    assert steps.without_failing("decide", ["a", "b", "c"], decide, kind="gpu") == ["a", "c"]
    assert steps.have_failed
    assert steps.without_failing("decide", ["a", "c"], decide, kind="gpu") == ["a", "c"]


async def test_a_traceback_is_logged_once(steps: Steps) -> None:
    with structlog.testing.capture_logs() as logs:
        for _ in range(3):
            steps.retry_now()
            await steps.run("a", Work(KeyError("x")))
    assert [bool(entry["exc_info"]) for entry in logs if entry["event"] == "internal error"] == [True, False, False]


async def test_a_driver_that_was_exchanged_ends_the_process(steps: Steps) -> None:
    with pytest.raises(DriverExchangedError):
        await steps.run("a", Work(DriverExchangedError("another")))
