"""Which devices an entry of the closing guard names."""

import pytest

from gpusharing.core.state.fence import TO_ALL, Closed, Fence, PoolReport, as_items, covers, is_closed_to_all

WHOLE, SHARE, MPS = "gpu-0", "gpu-0-timeslicing", "gpu-0-mps"
PART, LARGER_PART = "gpu-0-mig-1g10gb-19-6", "gpu-0-mig-3g40gb-9-0"


@pytest.mark.parametrize(
    ("item", "covered"),
    [
        ("0", {WHOLE, SHARE, MPS, PART, LARGER_PART}),
        ("gpu-0", {WHOLE}),
        ("gpu-0-timeslicing", {SHARE}),
        ("gpu-0-mig", {PART, LARGER_PART}),
        (PART, {PART}),
        ("1", set()),
    ],
)
def test_what_an_item_covers(item: str, covered: set[str]) -> None:
    assert {device for device in (WHOLE, SHARE, MPS, PART, LARGER_PART) if covers([item], device)} == covered
    assert not covers([item], "gpu-10") or item == "10"


@pytest.mark.parametrize(
    ("leaves_pool", "cuts", "items"),
    [(True, True, {"0"}), (False, False, {WHOLE, "gpu-0-mig"}), (False, True, {WHOLE, PART, LARGER_PART})],
)
def test_items_cover_nothing_that_the_gpu_will_offer(leaves_pool: bool, cuts: bool, items: set[str]) -> None:
    assert as_items([WHOLE, PART, LARGER_PART], leaves_pool=leaves_pool, cuts=cuts) == items


def test_only_what_is_closed_to_every_claim_may_be_withdrawn() -> None:
    fence: Fence = {"n1": (Closed("2026-11-18T12:00:00Z", "2026-11-18T12:01:00Z", ("0",)),)}
    assert not is_closed_to_all(fence, "n1", WHOLE)
    fence = {"n1": (*fence["n1"], Closed("2026-11-18T12:00:00Z", TO_ALL, ("gpu-0",)))}
    assert is_closed_to_all(fence, "n1", WHOLE)
    assert not is_closed_to_all(fence, "n1", SHARE)
    assert not is_closed_to_all(fence, "n1/search", WHOLE)


def test_what_was_closed_stays_closed_until_the_agent_reports_that_it_is_over() -> None:
    """An approval of before may still be on its way to it."""

    def report(*closing: str, open_: tuple[str, ...] = ()) -> PoolReport:
        return PoolReport(frozenset(), frozenset(closing), frozenset(open_))

    assert report(WHOLE, SHARE).keeps_closed("0")
    assert not report(WHOLE, open_=(SHARE,)).keeps_closed("0")
    assert report(WHOLE, open_=(SHARE,)).keeps_closed("gpu-0")
    assert not report().keeps_closed("0")
    assert PoolReport(frozenset({"0"}), frozenset(), frozenset({SHARE})).keeps_closed("0")
