"""Patience with a driver that hangs. What hangs here are Python functions; to the thread they are all the same."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Final

import pytest
import pytest_asyncio

from gpusharing.nvidia.driver_thread import DriverThread, Patience
from gpusharing.nvidia.errors import DriverHungError
from harness.eventually import eventually

HANGS: Final = 10


class Driver:
    """Calls that return when they are let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.calls: list[str] = []

    def stick(self) -> None:
        self.calls.append("stick")
        self.go.wait(HANGS)

    async def is_stuck(self) -> None:
        assert self.calls == ["stick"]

    def answer(self, text: str = "answer") -> str:
        self.calls.append(text)
        return text

    def refuse(self) -> None:
        self.calls.append("refuse")
        raise LookupError


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest_asyncio.fixture
async def thread(driver: Driver) -> AsyncIterator[DriverThread]:
    """What does not hang has its answer within half a second, also where the machine is busy with something else."""
    thread = DriverThread(Patience(question=0.5, change=1))
    yield thread
    driver.go.set()
    thread.close()


async def answers_again(thread: DriverThread, driver: Driver) -> None:
    driver.go.set()

    async def check() -> None:
        assert thread.hung() is None

    await eventually(check)


async def test_answers_and_errors_come_back(thread: DriverThread, driver: Driver) -> None:
    assert await thread.do(lambda: thread.ask(driver.answer, "a") + thread.ask(driver.answer, text="b")) == "ab"
    with pytest.raises(LookupError):
        await thread.do(lambda: thread.ask(driver.refuse))
    assert thread.hung() is None


async def test_everything_happens_in_one_thread_one_after_the_other(thread: DriverThread) -> None:
    inside: list[int] = []

    async def do(number: int) -> str:
        return await thread.do(lambda: work(number))

    def work(number: int) -> str:
        inside.append(number)
        time.sleep(0.01)
        assert inside == [number]
        inside.clear()
        return threading.current_thread().name

    assert set(await asyncio.gather(*(do(number) for number in range(8)))) == {"driver"}


@pytest.mark.parametrize(("kind", "patience"), [("ask", 0.5), ("change", 1)])
async def test_call_that_hangs_is_told_when_its_time_is_over(
    thread: DriverThread, driver: Driver, kind: str, patience: float
) -> None:
    began = time.monotonic()
    with pytest.raises(DriverHungError, match="has not answered stick for") as error:
        await thread.do(lambda: getattr(thread, kind)(driver.stick))
    assert patience <= time.monotonic() - began < HANGS
    assert "kernel's log" in str(error.value)
    assert thread.hung() is not None


async def test_while_it_hangs_nobody_waits_and_afterwards_all_is_well(thread: DriverThread, driver: Driver) -> None:
    with pytest.raises(DriverHungError):
        await thread.do(lambda: thread.ask(driver.stick))
    began = time.monotonic()
    for _ in range(20):
        with pytest.raises(DriverHungError):
            await thread.do(lambda: thread.ask(driver.answer))
    # Had each of them been patient, it would be more than three times as long.
    assert time.monotonic() - began < 3
    assert driver.calls == ["stick"]

    await answers_again(thread, driver)
    assert await thread.do(lambda: thread.ask(driver.answer)) == "answer"
    assert driver.calls == ["stick", "answer"]


async def test_who_is_queued_behind_it_is_told_as_well_and_is_never_begun(thread: DriverThread, driver: Driver) -> None:
    works: list[Callable[[], object]] = [
        lambda: thread.ask(driver.stick),
        *[lambda: thread.ask(driver.answer) for _ in range(3)],
    ]
    results = await asyncio.gather(*(thread.do(work) for work in works), return_exceptions=True)
    assert [type(result) for result in results] == [DriverHungError] * 4
    await answers_again(thread, driver)
    assert await thread.do(lambda: thread.ask(driver.answer, "later")) == "later"
    assert driver.calls == ["stick", "later"]


async def test_given_up_work_goes_no_step_further_but_cleans_up(thread: DriverThread, driver: Driver) -> None:
    cleaned: list[str] = []

    def transaction() -> None:
        try:
            thread.change(driver.answer, "first")
            thread.change(driver.stick)
            thread.change(driver.answer, "second")
        except DriverHungError:
            cleaned.append(thread.change(driver.answer, "undo"))

    with pytest.raises(DriverHungError):
        await thread.do(transaction)
    assert driver.calls == ["first", "stick"]
    await answers_again(thread, driver)
    await thread.do(lambda: thread.ask(driver.answer, "next"))
    assert driver.calls == ["first", "stick", "undo", "next"]
    assert cleaned == ["undo"]


async def test_slow_is_not_hung(thread: DriverThread) -> None:
    """Each call has its own time, however many there are."""

    def slow() -> int:
        for _ in range(10):
            thread.ask(time.sleep, 0.06)
        return 10

    assert await thread.do(slow) == 10


async def test_question_that_hangs_after_a_long_change_is_noticed_in_its_own_time(
    driver: Driver,
) -> None:
    thread = DriverThread(Patience(question=0.2, change=HANGS))

    def work() -> None:
        thread.change(time.sleep, 0.05)
        thread.ask(driver.stick)

    began = time.monotonic()
    with pytest.raises(DriverHungError, match="stick"):
        await thread.do(work)
    assert time.monotonic() - began < HANGS / 2
    driver.go.set()
    thread.close()


async def test_whoever_stops_waiting_takes_his_work_out_of_the_queue(thread: DriverThread, driver: Driver) -> None:
    first = asyncio.create_task(thread.do(lambda: thread.change(driver.stick)))
    second = asyncio.create_task(thread.do(lambda: thread.ask(driver.answer, "second")))
    await eventually(driver.is_stuck)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    driver.go.set()
    await first
    await thread.do(lambda: thread.ask(driver.answer, "third"))
    assert driver.calls == ["stick", "third"]


async def test_work_that_has_begun_comes_to_its_end_when_nobody_waits_any_more(
    thread: DriverThread, driver: Driver
) -> None:
    def transaction() -> None:
        thread.change(driver.stick)
        thread.change(driver.answer, "second half")

    task = asyncio.create_task(thread.do(transaction))
    await eventually(driver.is_stuck)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    driver.go.set()
    await thread.do(lambda: thread.ask(driver.answer, "next"))
    assert driver.calls == ["stick", "second half", "next"]
