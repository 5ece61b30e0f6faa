"""Which devices an entry of the closing guard names, and what has become of it."""

import pytest

from gpusharing.core.state.fence import Closed, Fence, Phase, PoolReport, as_items, is_closed

WHOLE, SHARE = "gpu-0", "gpu-0-timeslicing"
PART, LARGER_PART = "gpu-0-mig-1g10gb-19-6", "gpu-0-mig-3g40gb-9-0"


@pytest.mark.parametrize(
    ("leaves_pool", "cuts", "items"),
    [(True, True, {"0"}), (False, False, {WHOLE, "gpu-0-mig"}), (False, True, {WHOLE, PART, LARGER_PART})],
)
def test_items_cover_nothing_that_the_gpu_will_offer(leaves_pool: bool, cuts: bool, items: set[str]) -> None:
    assert as_items([WHOLE, PART, LARGER_PART], leaves_pool=leaves_pool, cuts=cuts) == items


def test_what_is_closed_is_closed_in_its_pool() -> None:
    fence: Fence = {"n1": (Closed("2026-11-18T12:00:00Z", ("gpu-0",)),)}
    assert is_closed(fence, "n1", WHOLE)
    assert not is_closed(fence, "n1", "gpu-0r1")
    assert not is_closed(fence, "n1", SHARE)
    assert not is_closed(fence, "n1/search", WHOLE)


@pytest.mark.parametrize(
    ("item", "to_close", "published", "held", "phase"),
    [
        pytest.param("0", ["0"], [WHOLE], [], Phase.CLOSING, id="being withdrawn"),
        pytest.param("0", ["0"], [WHOLE], [WHOLE], Phase.CLOSING, id="held and not offered any more"),
        pytest.param("0", [], [], [], Phase.OVER, id="withdrawn"),
        pytest.param("0", [], ["gpu-0r1", "gpu-1"], ["gpu-0r1"], Phase.OVER, id="withdrawn, there under another name"),
        pytest.param("0", [], [WHOLE, SHARE], [], Phase.CLOSING, id="offered again"),
        pytest.param("0", [], [WHOLE, SHARE], [SHARE], Phase.OPEN, id="offered again and held"),
        pytest.param(WHOLE, [], [WHOLE, SHARE], [SHARE], Phase.CLOSING, id="another of its GPU is held"),
        pytest.param("gpu-0-mig", [], [PART, LARGER_PART], [PART], Phase.OPEN, id="one of its parts is held"),
    ],
)
def test_what_has_become_of_what_was_closed(
    item: str, to_close: list[str], published: list[str], held: list[str], phase: Phase
) -> None:
    assert PoolReport(frozenset(to_close), frozenset(published), frozenset(held)).phase(item) is phase
