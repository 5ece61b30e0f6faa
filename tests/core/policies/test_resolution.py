"""What a policy's offers come to on one GPU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import boards, gpu, gpu_status
from gpusharing.api.sharing.gpu_status import NOT_REPORTED, GpuStatus, MemoryWallSupport
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.api.sharing.offers import (
    Enforcement,
    ExclusiveOffer,
    MigOffer,
    MpsMemory,
    MpsOffer,
    MpsThreads,
    Offers,
    TimeSlicingMemory,
    TimeSlicingOffer,
)
from gpusharing.api.sharing.tenants import Allowance
from gpusharing.core.devices import reported_models
from gpusharing.core.devices.gpu import MigSupport
from gpusharing.core.devices.reported_models import Reported
from gpusharing.core.policies.resolution import Resolution, resolve

GPU = 40960
PROFILES = ("1g.5gb", "3g.20gb")


SUPPORTED = MemoryWallSupport(supported=True)


def resolved(offers: Offers, memory_mib: int = GPU, memory_wall: MemoryWallSupport = SUPPORTED) -> Resolution:
    gpu = Reported(memory_mib=memory_mib, mig=None)
    return resolve(offers, gpu=gpu, mig_profiles=PROFILES, memory_wall=memory_wall)


def shares(default: str, least: str = "1Mi") -> Offers:
    return Offers(time_slicing=TimeSlicingOffer(max_clients=4, memory=TimeSlicingMemory(default=default, min=least)))


def mps(default: str, least: str = "1Mi", most: str | None = None) -> Offers:
    memory = MpsMemory(default=default, min=least, max=most)
    return Offers(mps=MpsOffer(max_clients=4, memory=memory, threads=MpsThreads(default=25)))


def test_what_needs_no_amounts_stays_as_it_is() -> None:
    offers = Offers(exclusive=ExclusiveOffer(), time_slicing=TimeSlicingOffer(max_clients=3))
    assert resolved(offers) == Resolution(offers)


@pytest.mark.parametrize(
    ("default", "least", "amounts"),
    [
        ("25%", "1Gi", ("10240Mi", "1024Mi")),
        ("33%", "1%", ("13516Mi", "409Mi")),
        ("16Gi", "1Mi", ("16384Mi", "1Mi")),
        ("100%", "100%", ("40960Mi", "40960Mi")),
        ("40960Mi", "40Gi", ("40960Mi", "40960Mi")),
    ],
)
def test_amounts_of_shares(default: str, least: str, amounts: tuple[str, str]) -> None:
    result = resolved(shares(default, least))
    assert result.refused == ()
    offer = result.offers.time_slicing
    assert offer is not None
    assert offer.memory is not None
    assert (offer.memory.default, offer.memory.min, offer.memory.enforcement) == (*amounts, Enforcement.REQUIRED)


@pytest.mark.parametrize(
    ("offers", "amounts"),
    [
        (mps("8Gi"), ("8192Mi", "1Mi", "40960Mi")),
        (mps("8Gi", "1Gi", "20Gi"), ("8192Mi", "1024Mi", "20480Mi")),
        (mps("10%", "5%", "50%"), ("4096Mi", "2048Mi", "20480Mi")),
    ],
)
def test_amounts_of_mps(offers: Offers, amounts: tuple[str, str, str]) -> None:
    offer = resolved(offers).offers.mps
    assert offer is not None
    assert (offer.memory.default, offer.memory.min, offer.memory.max) == amounts


@pytest.mark.parametrize(
    ("offers", "told"),
    [
        (shares("41Gi"), "offers.timeSlicing.memory.default: 41Gi is more than the 40960Mi of this GPU"),
        (shares("1Ti", "41Gi"), "offers.timeSlicing.memory.min: 41Gi is more than"),
        (mps("8Gi", "1Gi", "48Gi"), "offers.mps.memory.max: 48Gi is more than"),
        (
            shares("10%", "8Gi"),
            "offers.timeSlicing.memory.min: 8192Mi on this GPU, but default is 4096Mi: use amounts that fit",
        ),
        (mps("50%", "1Gi", "8Gi"), "offers.mps.memory.default: 20480Mi on this GPU, but max is 8192Mi"),
    ],
)
def test_what_does_not_fit_is_not_offered(offers: Offers, told: str) -> None:
    result = resolved(offers.model_copy(update={"exclusive": ExclusiveOffer()}))
    assert result.offers == Offers(exclusive=ExclusiveOffer())
    [refusal] = result.refused
    assert refusal.reason == "MemoryTooSmall"
    assert refusal.message.startswith(told)


@pytest.mark.parametrize(
    ("offers", "allow", "told"),
    [
        (shares("8Gi"), Allowance(max_memory="8Gi"), None),
        (
            shares("25%"),
            Allowance(max_memory="8Gi"),
            (
                "offers.timeSlicing.memory.default is 10240Mi on this GPU, but tenants.allow.maxMemory is 8Gi: "
                "raise the limit, or lower the default"
            ),
        ),
        (shares("4Gi", "4Gi"), Allowance(max_memory="4095Mi"), "offers.timeSlicing.memory.default is 4096Mi on this"),
        (mps("8Gi"), Allowance(max_memory="8Gi", max_threads=25, max_shares=1), None),
        (mps("8Gi"), Allowance(max_memory="4Gi"), "offers.mps.memory.default is 8192Mi on this GPU, but tenants.allow"),
        (
            mps("8Gi"),
            Allowance(max_threads=24),
            (
                "offers.mps.threads.default is 25, but tenants.allow.maxThreads is 24: raise the limit, or lower the "
                "default"
            ),
        ),
        # What is not divided gives nobody an amount.
        (Offers(time_slicing=TimeSlicingOffer(max_clients=4)), Allowance(max_memory="1Gi", max_threads=1), None),
    ],
)
def test_who_does_not_ask_gets_no_more_than_is_allowed(offers: Offers, allow: Allowance, told: str | None) -> None:
    gpu = Reported(memory_mib=GPU, mig=None)
    result = resolve(offers, gpu=gpu, mig_profiles=(), memory_wall=SUPPORTED, allow=allow)
    assert [refusal.reason for refusal in result.refused] == (["DefaultExceedsAllowance"] if told else [])
    assert all(refusal.message.startswith(told or "") for refusal in result.refused)
    assert (result.offers == Offers()) == bool(told)


@pytest.mark.parametrize("enforcement", Enforcement)
@pytest.mark.parametrize(
    "support", [MemoryWallSupport(supported=False, reason="it is too old"), NOT_REPORTED, SUPPORTED]
)
def test_walls_that_are_required_and_cannot_be(enforcement: Enforcement, support: MemoryWallSupport) -> None:
    memory = TimeSlicingMemory(default="8192Mi", enforcement=enforcement)
    offers = Offers(exclusive=ExclusiveOffer(), time_slicing=TimeSlicingOffer(max_clients=4, memory=memory))
    result = resolved(offers, memory_wall=support)
    if support.supported or enforcement is not Enforcement.REQUIRED:
        assert result == Resolution(offers)
        return
    assert result.offers == Offers(exclusive=ExclusiveOffer())
    [refusal] = result.refused
    assert (refusal.sharing, refusal.reason) == ("TimeSlicing", "MemoryWallUnsupported")
    assert refusal.message == (
        "offers.timeSlicing.memory.enforcement is Required, but memory limits are not supported on this GPU "
        f"({support.reason}): repair that, select other GPUs, or set Preferred"
    )
    assert resolved(result.offers, memory_wall=support) == Resolution(result.offers)


@pytest.mark.parametrize(
    ("offer", "left", "told"),
    [
        (MigOffer(profiles=("1g.5gb",)), MigOffer(profiles=("1g.5gb",)), None),
        (
            MigOffer(profiles=("1g.10gb", "3g.20gb")),
            MigOffer(profiles=("3g.20gb",)),
            "offers.mig.profiles: this GPU does not support 1g.10gb; it supports 1g.5gb, 3g.20gb",
        ),
        (MigOffer(profiles=("7g.40gb",)), None, "offers.mig.profiles: this GPU does not support 7g.40gb"),
        (MigOffer(layout={"1g.5gb": 7}), MigOffer(layout={"1g.5gb": 7}), None),
        (MigOffer(layout={"1g.5gb": 4, "2g.10gb": 1}), None, "offers.mig.layout: this GPU does not support 2g.10gb"),
    ],
)
def test_mig_profiles(offer: MigOffer, left: MigOffer | None, told: str | None) -> None:
    result = resolved(Offers(mig=offer))
    assert result.offers.mig == left
    assert [refusal.reason for refusal in result.refused] == (["UnknownMigProfile"] if told else [])
    assert all(refusal.message.startswith(told or "") for refusal in result.refused)


def test_a_gpu_that_cannot_be_cut() -> None:
    gpu = Reported(memory_mib=GPU, mig=None)
    [refusal] = resolve(Offers(mig=MigOffer(profiles=("1g.5gb",))), gpu=gpu, mig_profiles=()).refused
    assert refusal.message == "offers.mig.profiles: this GPU does not support 1g.5gb; it supports none"


@pytest.mark.parametrize(
    ("model", "layout", "excess"),
    [
        ("H100-80GB", {"1g.10gb": 7}, None),
        ("H100-80GB", {"1g.10gb": 4, "3g.40gb": 1}, None),
        ("H100-80GB", {"1g.10gb": 8}, "1 x 1g.10gb next to 7 x 1g.10gb"),
        ("H100-80GB", {"1g.10gb": 5, "3g.40gb": 1}, "1 x 1g.10gb next to 4 x 1g.10gb, 1 x 3g.40gb"),
        ("H100-80GB", {"3g.40gb": 2, "1g.10gb": 1}, "1 x 1g.10gb next to 2 x 3g.40gb"),
        ("H100-80GB", {"7g.80gb": 1, "1g.10gb": 2}, "2 x 1g.10gb next to 1 x 7g.80gb"),
        ("A30", {"4g.24gb": 2}, "1 x 4g.24gb next to 1 x 4g.24gb"),
    ],
)
def test_layouts_are_tried_out_on_the_model(model: str, layout: dict[str, int], excess: str | None) -> None:
    gpu = boards.board(model)
    offers = Offers(mig=MigOffer(layout=layout))
    result = resolve(offers, gpu=gpu, mig_profiles=boards.profile_names(gpu))
    assert result.offers == (Offers() if excess else offers)
    told = f"offers.mig.layout: there is no room for {excess} on this GPU: remove it, or use smaller profiles"
    assert [(refusal.reason, refusal.message) for refusal in result.refused] == (
        [("LayoutDoesNotFit", told)] if excess else []
    )


@pytest.mark.parametrize("model", boards.MIG_CAPABLE)
def test_a_model_as_reported_is_tried_out_as_the_board_itself(model: str) -> None:
    gpu = boards.board(model)
    [described] = reported_models.described([gpu])
    status = gpu_status().model_copy(update={"model": gpu.product_name, "memory": f"{gpu.memory_mib}Mi"})
    told = NodeSharingStatus.model_validate(NodeSharingStatus(models=(described,)).to_json())
    assert reported_models.reported(status, told.models) == Reported(memory_mib=gpu.memory_mib, mig=gpu.mig)


def test_of_two_boards_of_a_model_the_one_that_tells_more_speaks() -> None:
    silent = boards.board("A100-40GB", mig=MigSupport(profiles=(), switch_resets_gpu=True))
    telling = boards.board("A100-40GB", 1)
    assert (
        reported_models.described([silent, telling])
        == reported_models.described([telling, silent])
        == reported_models.described([telling])
    )
    assert reported_models.described([gpu(0, mig=None)]) == ()


amounts = st.one_of(
    st.integers(1, 100).map("{}%".format),
    st.integers(1, 99999).map("{}Mi".format),
    st.integers(1, 99).map("{}Gi".format),
)


@given(amounts, amounts, amounts, st.integers(1, 200_000))
def test_resolving_again_changes_nothing(default: str, least: str, most: str, memory: int) -> None:
    for offers in (shares(default, least), mps(default, least, most)):
        once = resolved(offers, memory)
        assert resolved(once.offers, memory) == Resolution(once.offers)
        assert bool(once.refused) == (once.offers == Offers())


def test_shares_are_parts_of_what_programs_can_use() -> None:
    """Not of what the driver keeps for itself: the last of four quarters would find too little."""
    status = GpuStatus(
        uuid="GPU-1", slot=0, minor=0, model="H100", memory="81559Mi", usable_memory="81000Mi", attributes={}
    )
    reported = reported_models.reported(status, ())
    found = resolve(shares("25%"), gpu=reported, mig_profiles=(), memory_wall=SUPPORTED)
    assert found.offers.time_slicing
    assert found.offers.time_slicing.memory
    assert found.offers.time_slicing.memory.default == "20250Mi"
    [refusal] = resolve(shares("81100Mi"), gpu=reported, mig_profiles=(), memory_wall=SUPPORTED).refused
    assert "81100Mi is more than the 81000Mi of this GPU" in refusal.message
