"""Four threads that compile and match at once say what one alone says."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from cel.generator.cases import Case, case
from gpusharing import cel
from gpusharing.cel import compilation

THREADS = 4
CASES = [case(4, number) for number in range(400)]


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads take turns as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def answers(case: Case, devices: list[cel.Device]) -> list[str]:
    try:
        program = cel.compile(str(case.tree), 37)
    except cel.CompileError as error:
        return [str(error)]
    return [_answer(program, device) for device in devices]


def _answer(program: cel.Program, device: cel.Device) -> str:
    try:
        return str(program.match(device))
    except cel.EvaluationError as error:
        return error.message


@pytest.mark.usefixtures("impatient")
def test_threads_do_not_disturb_each_other() -> None:
    bound = [
        [
            cel.Device(
                device["driver"], device.get("attributes", {}), device.get("capacity", {}),
                device.get("allowMultipleAllocations", False),
            )
            for device in each.devices
        ]
        for each in CASES
    ]  # fmt: skip
    alone = [answers(each, devices) for each, devices in zip(CASES, bound, strict=True)]
    compilation._outcome.cache_clear()
    barrier = threading.Barrier(THREADS)

    def all_cases(_: int) -> list[list[str]]:
        barrier.wait()
        return [answers(each, devices) for each, devices in zip(CASES, bound, strict=True)]

    with ThreadPoolExecutor(THREADS) as pool:
        for together in pool.map(all_cases, range(THREADS)):
            assert together == alone
    assert len({answer for each in alone for answer in each}) > THREADS
