"""How a GPU is cut while no claim says otherwise."""

import time
from typing import Any

import pytest

from building.boards import board
from core.publishing.test_menu import HALF, POLICY, instance
from gpusharing.api.names import MigPlace
from gpusharing.api.sharing.offers import ExclusiveOffer, MigOffer, Offers
from gpusharing.core.devices.gpu import MigInstance
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing.mig_at_rest import AS_IT_IS, Cut, at_rest

LAYOUT = Offers(mig=MigOffer(layout={"3g.40gb": 1, "1g.10gb": 1}))
PLACES = frozenset({MigPlace(9, 4), MigPlace(19, 3)})
ON_AMPERE = Offers(mig=MigOffer(layout={"3g.20gb": 1}))
PLACES_ON_AMPERE = frozenset({MigPlace(9, 4)})
ON_DEMAND = Offers(mig=MigOffer(profiles=("1g.5gb",)))
WHOLE = Offers(exclusive=ExclusiveOffer())


def gpu(
    model: str, offers: Offers, *instances: MigInstance, mig_enabled: bool = False, policy: Any = POLICY
) -> OfferedGpu:
    return OfferedGpu(
        gpu=board(model),
        offers=offers,
        policy=policy,
        configured=True,
        mig_enabled=mig_enabled,
        instances=instances,
    )


def cut(
    offered: OfferedGpu, *, held: set[str] | None = None, published: set[str] | None = None, found: bool | None = None
) -> Cut:
    return at_rest(offered, held=held or set(), published=published or set(), found_enabled=found)


@pytest.mark.parametrize("held", [set(), {"gpu-0-mig-3g40gb-9-4"}, {"gpu-0-mig-3g40gb-9-4", "gpu-0-mig-1g10gb-19-3"}])
def test_a_layout_stays_whoever_holds_its_instances(held: set[str]) -> None:
    assert cut(gpu("H100-80GB", LAYOUT), held=held, published={"gpu-0"}) == Cut(places=PLACES)


@pytest.mark.parametrize(
    "held", ["gpu-0", "gpu-0-timeslicing", "gpu-0-mps", "gpu-0-mig-3g40gb-9-0", "gpu-1-mig-3g40gb-9-4"]
)
def test_claims_that_hold_it_in_another_way_come_first(held: str) -> None:
    assert cut(gpu("H100-80GB", LAYOUT), held={held, "gpu-0-mig-1g10gb-19-3"}) == AS_IT_IS


@pytest.mark.parametrize("offers", [WHOLE, Offers(mig=MigOffer(profiles=("1g.10gb",)))])
@pytest.mark.parametrize("model", ["H100-80GB", "L4"])
def test_without_a_layout_nothing_is_cut_in_advance(model: str, offers: Offers) -> None:
    assert cut(gpu(model, offers)) == AS_IT_IS


def test_instances_of_others_are_part_of_it_or_in_its_way() -> None:
    assert cut(gpu("H100-80GB", LAYOUT, HALF), held={"gpu-0-mig-3g40gb-9-4"}) == Cut(
        places=frozenset({MigPlace(19, 3)})
    )
    whole = Offers(mig=MigOffer(layout={"7g.80gb": 1}))
    told = f"offers.mig.layout of policy {POLICY.name} does not fit next to 3g.40gb at 4, which other programs created"
    assert cut(gpu("H100-80GB", whole, HALF)) == Cut(problem=told)
    unknown = cut(gpu("H100-80GB", whole, instance(99, 0)))
    assert unknown.problem is not None
    assert "profile 99 at 0" in unknown.problem


def test_what_does_not_fit_is_found_out_soon() -> None:
    """It is asked at every turn."""

    def seconds(count: int) -> float:
        offered = gpu("H100-80GB", Offers(mig=MigOffer(layout={"1g.10gb": count})))
        before = time.process_time()
        assert bool(cut(offered).problem) == (count > 7)
        return time.process_time() - before

    # To try all orders of what is alike would take a thousand times as long.
    assert min(seconds(16) for _ in range(5)) < 200 * min(seconds(7) for _ in range(5))


@pytest.mark.parametrize(
    ("offers", "enabled", "found", "held", "published", "expected"),
    [
        pytest.param(ON_DEMAND, False, None, "", "", Cut(mig_mode=True), id="it is idle and withdrawn"),
        pytest.param(ON_DEMAND, False, None, "", "gpu-0", AS_IT_IS, id="the whole is still published"),
        pytest.param(ON_DEMAND, False, None, "gpu-0", "", AS_IT_IS, id="the whole is still held"),
        pytest.param(ON_DEMAND, True, False, "", "gpu-0-mig-1g5gb-19-0", Cut(mig_mode=True), id="it is on already"),
        pytest.param(WHOLE, True, False, "", "", Cut(mig_mode=False), id="back when nothing needs it"),
        pytest.param(WHOLE, True, False, "", "gpu-0-mig-1g5gb-19-0", AS_IT_IS, id="instances are still published"),
        pytest.param(WHOLE, True, False, "gpu-0-mig-1g5gb-19-0", "", AS_IT_IS, id="an instance is still held"),
        pytest.param(WHOLE, True, None, "", "", AS_IT_IS, id="it was on before us"),
        pytest.param(ON_AMPERE, False, None, "", "gpu-0", AS_IT_IS, id="a layout waits for the mode"),
        pytest.param(
            ON_AMPERE, False, None, "", "", Cut(mig_mode=True, places=PLACES_ON_AMPERE), id="a layout, and the mode"
        ),
        pytest.param(
            ON_AMPERE, True, False, "gpu-0-mig-3g20gb-9-4", "gpu-0-mig-3g20gb-9-4",
            Cut(places=PLACES_ON_AMPERE), id="a layout in use",
        ),
    ],
)  # fmt: skip
def test_where_the_switch_resets_the_gpu(
    *, offers: Offers, enabled: bool, found: bool | None, held: str, published: str, expected: Cut
) -> None:
    offered = gpu("A100-40GB", offers, mig_enabled=enabled)
    assert cut(offered, held={held} - {""}, published={published} - {""}, found=found) == expected
