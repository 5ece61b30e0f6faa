from itertools import islice

import pytest

from gpusharing.kube import retry
from gpusharing.kube.retry import Backoff, patiently
from gpusharing.kube.transport import UnreachableError


def test_delays_double_up_to_the_last_and_differ_between_those_who_wait() -> None:
    runs = [list(islice(Backoff(0.5, 30), 12)) for _ in range(50)]
    for run in runs:
        for number, delay in enumerate(run):
            whole = min(0.5 * 2**number, 30)
            assert 0.5 * whole <= delay <= 1.5 * whole
    assert len({run[-1] for run in runs}) > 40


async def test_it_goes_on_until_it_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "Backoff", lambda: Backoff(0.001, 0.001))
    attempts = iter([UnreachableError("a"), UnreachableError("b"), None])

    async def attempt() -> str:
        if (error := next(attempts)) is not None:
            raise error
        return "done"

    assert await patiently(attempt) == "done"
    assert next(attempts, "all") == "all"


async def test_a_mistake_of_ours_is_not_tried_again() -> None:
    async def attempt() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await patiently(attempt)
