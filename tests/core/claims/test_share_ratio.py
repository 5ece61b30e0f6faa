"""What part of a GPU claims were promised."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import time_slicing
from building.boards import MIG_CAPABLE, board, profile_names
from gpusharing.api import names
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.offers import (
    ExclusiveOffer,
    MigOffer,
    MpsMemory,
    MpsOffer,
    MpsThreads,
    Offers,
    TimeSlicingMemory,
    TimeSlicingOffer,
)
from gpusharing.core.claims.share_ratio import Capacities, Held, Promise, promises
from gpusharing.core.devices import options
from gpusharing.core.devices.gpu import Gpu
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing.devices import devices, full_menu

GPU = board("H100-80GB")
POLICY = PolicyReference(name="p", generation=1)
QUARTERS = TimeSlicingMemory(default="20Gi", min="1Gi")
MPS = MpsOffer(max_clients=8, memory=MpsMemory(default="8Gi", min="1Gi"), threads=MpsThreads(default=25, min=5))


def published(offers: Offers, gpu: Gpu = GPU) -> dict[str, Capacities]:
    """As the agent publishes it."""
    offered = OfferedGpu(gpu=gpu, offers=offers, policy=POLICY, configured=True)
    return {device["name"]: device["capacity"] for device in devices(offered, full_menu(offered))}


UNDIVIDED = published(time_slicing(4))
DIVIDED = published(Offers(time_slicing=TimeSlicingOffer(max_clients=4, memory=QUARTERS)))
BY_MPS = published(Offers(mps=MPS))
USABLE = GPU.usable_mib


def sliced(shares: int = 1, memory: str = "0", **more: Any) -> Held:
    return Held("gpu-0-timeslicing", {"shares": str(shares), "memory": memory}, **more)


def mps(memory: str) -> Held:
    return Held("gpu-0-mps", {"shares": "1", "memory": memory, "threads": "25"})


def mig(profile: str, start: int) -> Held:
    assert GPU.mig
    found = next(one for one in GPU.mig.profiles if one.name == profile)
    return Held(names.mig_device(0, profile, names.MigPlace(found.id, start)), {})


@pytest.mark.parametrize(
    ("held", "capacities", "expected"),
    [
        pytest.param([Held("gpu-0", {})], {}, [Promise(Fraction(1), USABLE)], id="whole"),
        pytest.param([Held("gpu-0", {}, admin=True)], {}, [Promise(Fraction(0), 0)], id="admin access"),
        pytest.param([sliced(), sliced(2)], UNDIVIDED, [(Fraction(1, 4), 0), (Fraction(1, 2), 0)], id="shares"),
        pytest.param([sliced(1, "10Gi")], UNDIVIDED, [(Fraction(1, 4), 10240)], id="memory that is not divided"),
        pytest.param(
            [sliced(1, "20Gi"), sliced(1, "1Gi")],
            DIVIDED,
            [(Fraction(20480, USABLE), 20480), (Fraction(1024, USABLE), 1024)],
            id="memory that is divided",
        ),
        pytest.param([sliced(1, "0")], DIVIDED, [(Fraction(1, 4), 0)], id="from before memory was divided"),
        pytest.param([mps("8Gi")], BY_MPS, [(Fraction(8192, USABLE), 8192)], id="MPS"),
        pytest.param(
            [mig("1g.10gb", 6), mig("3g.40gb", 0)], {}, [(Fraction(1, 8), 9984), (Fraction(1, 2), 40448)], id="MIG"
        ),
        pytest.param([sliced()] * 5, UNDIVIDED, [(Fraction(1, 5), 0)] * 5, id="the policy now allows fewer"),
        pytest.param([sliced()] * 2, {}, [(Fraction(1, 2), 0)] * 2, id="not published any more"),
        pytest.param([Held("gpu-0-mig-1g10gb-99-0", {})], {}, [(Fraction(1), 0)], id="unknown profile"),
        pytest.param([Held("nonsense", {})], {}, [(Fraction(0), 0)], id="no device of ours"),
        pytest.param(
            [Held("gpu-0", {}), sliced()], UNDIVIDED, [(Fraction(4, 5), USABLE), (Fraction(1, 5), 0)], id="conflict"
        ),
        pytest.param([sliced(1, "much")], DIVIDED, [(Fraction(1, 4), 0)], id="no quantity"),
    ],
)
def test_promises(held: list[Held], capacities: Mapping[str, Capacities], expected: list[Promise]) -> None:
    assert promises(GPU, held, capacities) == expected


def test_admin_access_takes_nothing_from_others() -> None:
    whole, looking = promises(GPU, [Held("gpu-0", {}), Held("gpu-0", {}, admin=True)], {})
    assert (float(whole.ratio), float(looking.ratio)) == (1, 0)


@pytest.mark.parametrize("model", MIG_CAPABLE)
def test_instances_that_fit_together_have_no_more_than_the_gpu(model: str) -> None:
    gpu = board(model)
    assert gpu.mig
    offers = Offers(mig=MigOffer(profiles=profile_names(gpu)))
    chosen: list[options.Option] = []
    for entry in full_menu(OfferedGpu(gpu=gpu, offers=offers, policy=POLICY, configured=True, mig_enabled=True)):
        option = options.of_device(gpu, entry.device)
        if options.can_be_held_together(gpu, [*chosen, option]):
            chosen.append(option)
    found = promises(gpu, [Held(option.device, {}) for option in chosen], {})
    assert 0 < sum(one.ratio for one in found) <= 1
    assert sum(one.memory_mib for one in found) <= gpu.memory_mib


AMOUNTS = st.sampled_from(["0", "1", "3", "4Gi", "80Gi", "300Gi", "nonsense", "-1", "1e99", ""])
CONSUMED = st.dictionaries(st.sampled_from(["shares", "memory", "threads", "other"]), AMOUNTS)
HELD = st.builds(
    Held,
    st.sampled_from(["gpu-0", "gpu-0-timeslicing", "gpu-0r1-timeslicing", "gpu-0-mps", "gpu-0-mig-1g10gb-19-0", "x"]),
    CONSUMED,
    st.booleans(),
)
EVERYTHING = Offers(exclusive=ExclusiveOffer(), time_slicing=TimeSlicingOffer(max_clients=3, memory=QUARTERS), mps=MPS)


@given(st.lists(HELD, max_size=12), st.sampled_from([{}, UNDIVIDED, DIVIDED, BY_MPS, published(EVERYTHING)]))
def test_a_gpus_claims_never_have_more_than_the_gpu(held: list[Held], capacities: Mapping[str, Capacities]) -> None:
    found = promises(GPU, held, capacities)
    assert sum(one.ratio for one in found) <= 1
    assert all(one.ratio >= 0 and 0 <= one.memory_mib <= GPU.memory_mib for one in found)
    assert all(not any(one) for one, holder in zip(found, held, strict=True) if holder.admin)
