from gpusharing.controller.backoff import Backoff


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_waits_grow_up_to_a_limit_and_only_for_what_failed() -> None:
    clock = Clock()
    backoff = Backoff(clock)
    waits = []
    for _ in range(12):
        backoff.failed("a")
        assert not backoff.is_due("a")
        assert backoff.is_due("b")
        wait = backoff.next_in
        assert wait is not None
        waits.append(wait)
        clock.now += wait
        assert backoff.is_due("a")
    assert waits[0] < 1
    assert waits[1] > waits[0]
    assert 20 < waits[-1] <= 36


def test_success_ends_it() -> None:
    backoff = Backoff(Clock())
    backoff.failed("a")
    backoff.succeeded("a")
    assert backoff.is_due("a")
    assert backoff.next_in is None


def test_what_is_not_wanted_any_more_is_forgotten() -> None:
    backoff = Backoff(Clock())
    backoff.failed("a")
    backoff.failed("b")
    backoff.only({"b"})
    assert backoff.is_due("a")
    assert not backoff.is_due("b")
