"""Threads in the driver's library, one for each GPU. What is called here are Python functions."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Coroutine
from functools import partial
from typing import Any, Final

import pytest
import pytest_asyncio

from gpusharing.nvidia.driver_thread import Patience
from gpusharing.nvidia.driver_threads import DriverThreads
from gpusharing.nvidia.errors import DriverHungError

PATIENCE: Final = Patience(question=0.5, change=1)
GPUS: Final = [f"GPU-{number}" for number in range(8)]


@pytest_asyncio.fixture
async def threads() -> AsyncIterator[DriverThreads]:
    threads = DriverThreads(PATIENCE)
    yield threads
    threads.close()


async def test_gpus_do_not_wait_for_each_other(threads: DriverThreads) -> None:
    """Each step waits until all eight are at work: in one thread none would come to its end."""
    together = threading.Barrier(len(GPUS), timeout=0.4)
    await asyncio.gather(*(threads.do(lambda: threads.change(together.wait), gpu=gpu) for gpu in GPUS))


async def test_one_gpu_is_asked_in_order(threads: DriverThreads) -> None:
    inside: list[int] = []

    def work(number: int) -> int:
        inside.append(number)
        time.sleep(0.01)
        assert inside == [number]
        inside.clear()
        return number

    async def do(number: int) -> int:
        return await threads.do(lambda: work(number), gpu=GPUS[0])

    assert await asyncio.gather(*map(do, range(8))) == list(range(8))


async def test_gpu_that_hangs_keeps_no_other_from_its_answers(threads: DriverThreads) -> None:
    go = threading.Event()
    with pytest.raises(DriverHungError):
        await threads.do(lambda: threads.ask(go.wait, 10), gpu=GPUS[0])
    assert threads.hung() is not None
    assert await threads.do(lambda: threads.ask(lambda: "answer"), gpu=GPUS[1]) == "answer"
    with pytest.raises(DriverHungError):
        await threads.do(lambda: threads.ask(lambda: "answer"), gpu=GPUS[0])
    go.set()


async def test_who_is_alone_is_alone_and_does_it_for_all_that_wait(threads: DriverThreads) -> None:
    """Work, a renewal in the middle of it, and more work: on eight GPUs, each many times."""
    inside: set[str] = set()
    renewed: list[int] = []

    def renew() -> None:
        assert inside == set()
        renewed.append(len(renewed))
        time.sleep(0.001)
        assert inside == set()

    def work(gpu: str, *, renews: bool) -> None:
        inside.add(gpu)
        time.sleep(0.001)
        inside.discard(gpu)
        if renews:
            before = len(renewed)
            threads.alone(renew)
            assert len(renewed) > before
        inside.add(gpu)
        time.sleep(0.001)
        inside.discard(gpu)

    async def worker(gpu: str, number: int) -> None:
        for turn in range(20):
            await threads.do(partial(work, gpu, renews=(turn + number) % 3 == 0), gpu=gpu)

    await asyncio.gather(*(worker(gpu, number) for number, gpu in enumerate(GPUS)))
    # More than once, and not once for each that asked.
    assert 1 < len(renewed) < 8 * 20 / 3


async def test_nobody_waits_for_ever_to_be_alone(threads: DriverThreads) -> None:
    go = threading.Event()
    hangs = asyncio.create_task(threads.do(lambda: threads.ask(go.wait, 10), gpu=GPUS[0]))
    await asyncio.sleep(0.05)
    with pytest.raises(DriverHungError):
        await threads.do(lambda: threads.alone(lambda: None), gpu=GPUS[1])
    await asyncio.gather(hangs, return_exceptions=True)
    # The others go on.
    assert await threads.do(lambda: "answer", gpu=GPUS[2]) == "answer"
    go.set()


async def test_who_hangs_alone_is_told_to_all(threads: DriverThreads) -> None:
    go = threading.Event()

    def hang() -> None:
        threads.ask(go.wait, 10)

    works: list[Coroutine[Any, Any, str | None]] = [
        threads.do(lambda: threads.alone(hang), gpu=GPUS[0]),
        *(threads.do(lambda: "answer", gpu=gpu) for gpu in GPUS[1:]),
    ]
    first, *others = (asyncio.create_task(work) for work in works)
    await asyncio.sleep(0.1)
    late = asyncio.create_task(threads.do(lambda: "late", gpu=GPUS[1]))
    results = await asyncio.wait_for(asyncio.gather(first, late, return_exceptions=True), 5)
    assert [type(result) for result in results] == [DriverHungError] * 2
    await asyncio.gather(*others, return_exceptions=True)
    go.set()
