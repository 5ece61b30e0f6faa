"""In which modes a GPU can be had: the same that its menu has."""

import pytest

from building.boards import ALL, board, profile_names
from core.publishing.test_menu import COMBINATIONS, POLICY, offers
from gpusharing.api.names import MigPlace, Sharing, mig_device
from gpusharing.api.sharing.offers import MigOffer, Offers
from gpusharing.core.devices.gpu import Gpu, MigInstance
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing.menu import menu
from gpusharing.core.publishing.possible_modes import needs_reset, possible_modes


def modes(gpu: Gpu, offered: Offers, *, enabled: bool, instances: tuple[MigInstance, ...] = ()) -> set[Sharing]:
    """Of the menu, and checked."""
    found = menu(
        OfferedGpu(gpu=gpu, offers=offered, policy=POLICY, configured=True, mig_enabled=enabled, instances=instances)
    )
    there = [(profile_name(gpu, one.place), one.place.start) for one in instances]
    possible = possible_modes(offered, gpu.mig, mig_enabled=enabled, instances=there)
    assert list(possible) == [mode for mode in Sharing if mode in {option.sharing for option in found}]
    return set(possible)


def profile_name(gpu: Gpu, place: MigPlace) -> str:
    profile = gpu.mig.profile(place.profile_id) if gpu.mig else None
    assert profile is not None
    return profile.name


@pytest.mark.parametrize("chosen", COMBINATIONS, ids="+".join)
@pytest.mark.parametrize("model", ALL)
def test_every_combination_on_every_model(model: str, chosen: tuple[str, ...]) -> None:
    gpu = board(model)
    offered = offers(chosen, profile_names(gpu))
    for enabled in (False, True) if gpu.mig else (False,):
        found = modes(gpu, offered, enabled=enabled)
        is_lacking = offered.mig is not None and Sharing.MIG not in found
        assert needs_reset(offered, gpu.mig, mig_enabled=enabled) == (is_lacking and chosen != ("mig",))


@pytest.mark.parametrize("model", ["H100-80GB", "A100-80GB"])
@pytest.mark.parametrize("chosen", COMBINATIONS, ids="+".join)
def test_what_others_have_cut_stays_cut(model: str, chosen: tuple[str, ...]) -> None:
    gpu = board(model)
    other = MigInstance(place=MigPlace(19, 6), uuid="MIG-1")
    assert modes(gpu, offers(chosen, profile_names(gpu)), enabled=True, instances=(other,)) <= {Sharing.MIG}


@pytest.mark.parametrize("model", ["H100-80GB", "A100-80GB"])
def test_a_layout_is_there_when_its_instances_are(model: str) -> None:
    gpu, offered = board(model), Offers(mig=MigOffer(layout={"1g.10gb": 1}))
    made = MigInstance(place=MigPlace(19, 0), uuid="MIG-1")
    assert modes(gpu, offered, enabled=False) == set()
    assert modes(gpu, offered, enabled=True, instances=(made,)) == {Sharing.MIG}
    held = mig_device(0, "1g.10gb", made.place)
    found = possible_modes(offered, gpu.mig, mig_enabled=True, instances=[("1g.10gb", 0)], allocated=[held])
    assert found == (Sharing.MIG,), "whoever has them"


def test_instances_of_claims_go_with_them() -> None:
    gpu = board("H100-80GB")
    offered = offers(("exclusive", "mig"), profile_names(gpu))
    held = [mig_device(0, "1g.10gb", MigPlace(19, 3)), "gpu-0", "nonsense"]
    there = [("1g.10gb", 3)]
    assert len(possible_modes(offered, gpu.mig, mig_enabled=True, instances=there, allocated=held)) == 2
    assert len(possible_modes(offered, gpu.mig, mig_enabled=True, instances=there, allocated=held[1:])) == 1
