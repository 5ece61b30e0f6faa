"""How the devices of a node's GPUs are laid out in slices."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building.boards import ALL, board, profile_names
from core.publishing.test_menu import COMBINATIONS, MODES, POLICY, offered
from gpusharing.api.names import at_revision, read_device
from gpusharing.api.sharing.offers import ExclusiveOffer, MigOffer, Offers, TimeSlicingOffer
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing.devices import full_menu
from gpusharing.core.publishing.entries import Entry, Standing
from gpusharing.core.publishing.slices import PublishedGpu, slice_specs

Specs = list[dict[str, Any]]
H100 = "H100-80GB"


def specs(gpus: Sequence[PublishedGpu], *, pool: str = "n1") -> Specs:
    return slice_specs(gpus, node="n1", pool=pool, driver="gpu.nvidia.com", generation=3)


def everything(item: OfferedGpu) -> PublishedGpu:
    return PublishedGpu(item, full_menu(item))


def order(slices: Specs) -> list[list[str]]:
    """The devices in each slice of them."""
    return [[device["name"] for device in spec["devices"]] for spec in slices if "devices" in spec]


def slots(slices: Specs) -> list[list[int]]:
    """The GPUs in each slice of devices, in the order in which they appear."""
    return [
        list(dict.fromkeys(name.slot for device in devices if (name := read_device(device))))
        for devices in order(slices)
    ]


@pytest.mark.parametrize("model", ALL)
def test_slices_keep_to_the_limits_of_the_api(model: str) -> None:
    """At its longest: everything offered, closing, restricted, on more GPUs than a counters' slice takes."""
    gpus = []
    for slot in range(10):
        item = offered(model, MODES, slot, restricted=True, mig_enabled=True)
        entries = [
            Entry(device=entry.device, policy=entry.policy, standing=Standing.DRAINING) for entry in full_menu(item)
        ]
        gpus.append(PublishedGpu(item, entries))
    slices = specs(gpus, pool="n1/p")
    assert [name for names in slots(slices) for name in names] == list(range(10))
    assert {(spec["pool"]["resourceSliceCount"], spec["pool"]["name"]) for spec in slices} == {(len(slices), "n1/p")}
    assert ["sharedCounters" in spec for spec in slices[:3]] == [True, True, False]
    for spec in slices:
        assert ("devices" in spec) != ("sharedCounters" in spec)
        assert len(spec.get("sharedCounters", ())) <= 8
        assert all(len(counter_set["counters"]) <= 32 for counter_set in spec.get("sharedCounters", ()))
        assert len(spec.get("devices", ())) <= 64
        for device in spec.get("devices", ()):
            assert len(device["attributes"]) + len(device["capacity"]) <= 32
            assert all(len(use["counters"]) <= 32 for use in device["consumesCounters"])


def test_the_counters_do_not_depend_on_what_is_offered() -> None:
    found = [specs([everything(offered(H100, chosen))]) for chosen in COMBINATIONS]
    assert len({str(slices[0]["sharedCounters"]) for slices in found if len(slices) > 1}) == 1


def test_a_gpu_that_offers_nothing_has_a_slice_without_devices() -> None:
    """As the API server keeps it: an empty list would look like a difference for ever."""
    item = OfferedGpu(gpu=board("L4"), offers=Offers(), policy=POLICY, configured=True)
    assert specs([everything(item)]) == [
        {
            "driver": "gpu.nvidia.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 3, "resourceSliceCount": 1},
        }
    ]


SMALL_MENU = Offers(exclusive=ExclusiveOffer(), time_slicing=TimeSlicingOffer(max_clients=4))
"""Two devices."""
LARGE_MENU = Offers(
    exclusive=ExclusiveOffer(), time_slicing=SMALL_MENU.time_slicing, mig=MigOffer(profiles=("1g.10gb", "3g.40gb"))
)
"""Eleven."""
LARGEST_MENU = Offers(exclusive=ExclusiveOffer(), mig=MigOffer(profiles=profile_names(board(H100))))


@pytest.mark.parametrize(
    ("offers", "gpus", "slices"),
    [
        (SMALL_MENU, 1, [1]),
        (SMALL_MENU, 8, [8]),
        (SMALL_MENU, 16, [16]),
        (SMALL_MENU, 33, [17, 16]),
        (LARGE_MENU, 5, [5]),
        # Not five and three: what is in use at one end then leaves a slice that is whole.
        (LARGE_MENU, 8, [4, 4]),
        (LARGE_MENU, 11, [4, 4, 3]),
        (LARGEST_MENU, 8, [2, 2, 2, 2]),
        (LARGEST_MENU, 3, [2, 1]),
    ],
)
def test_as_few_slices_as_have_room(offers: Offers, gpus: int, slices: list[int]) -> None:
    found = specs([everything(of(slot, offers)) for slot in range(gpus)])
    assert [len(those) for those in slots(found)] == slices


def of(slot: int, offers: Offers) -> OfferedGpu:
    return OfferedGpu(gpu=board(H100, slot), offers=offers, policy=POLICY, configured=True)


offers = st.sampled_from([SMALL_MENU, LARGE_MENU, LARGEST_MENU, Offers(exclusive=ExclusiveOffer())])
standings = st.sampled_from(Standing)


@given(st.lists(offers, min_size=1, max_size=12), st.data())
def test_no_gpu_moves_while_the_offers_are_the_same(chosen: list[Offers], data: st.DataObject) -> None:
    """Whatever is narrowed, closes or comes back: the same slices, and each GPU in the one in which it was."""
    items = [of(slot, offer) for slot, offer in enumerate(chosen)]

    def narrowed(item: OfferedGpu) -> PublishedGpu:
        shown = data.draw(st.lists(st.sampled_from(full_menu(item)), unique=True))
        return PublishedGpu(item, [replace(entry, standing=data.draw(standings)) for entry in shown])

    full = specs([everything(item) for item in items])
    less = specs([narrowed(item) for item in items])
    assert len(less) == len(full)
    assert [spec.get("sharedCounters") for spec in less] == [spec.get("sharedCounters") for spec in full]
    for before, after in zip(full, less, strict=True):
        known = {device["name"] for device in before.get("devices", ())}
        assert {device["name"] for device in after.get("devices", ())} <= known


@given(st.lists(offers, min_size=1, max_size=12))
def test_other_names_need_no_more_room(chosen: list[Offers]) -> None:
    items = [everything(of(slot, offer)) for slot, offer in enumerate(chosen)]
    renamed = [
        item._replace(entries=[replace(entry, device=at_revision(entry.device, 1)) for entry in item.entries])
        for item in items
    ]
    assert slots(specs(renamed)) == slots(specs(items))


def test_what_is_not_offered_any_more_has_room_as_well() -> None:
    """After another policy: the devices of the old one close beside those of the new one."""
    left = full_menu(of(0, LARGEST_MENU))
    gpus = [
        PublishedGpu(of(slot, SMALL_MENU), (*full_menu(of(slot, SMALL_MENU)), *_of_slot(left[1:], slot)))
        for slot in range(8)
    ]
    found = specs(gpus)
    assert [len(those) for those in slots(found)] == [2, 2, 2, 2]
    assert all(len(spec.get("devices", ())) <= 64 for spec in found)


def _of_slot(entries: Sequence[Entry], slot: int) -> list[Entry]:
    return [
        replace(entry, device=entry.device.replace("gpu-0", f"gpu-{slot}"), standing=Standing.CLOSING)
        for entry in entries
    ]


def test_the_scheduler_meets_what_is_in_use_first_and_the_menu_last() -> None:
    """It takes the first that fits: shares fill the GPUs that are shared already, and whoever wants a whole one gets
    one that is nothing else, without a look at counters."""
    shown = {
        0: ["gpu-0", "gpu-0-timeslicing", "gpu-0-mig-1g10gb-19-0"],
        1: ["gpu-1"],
        2: ["gpu-2-timeslicing"],
        3: ["gpu-3"],
        4: ["gpu-4-mig-1g10gb-19-0", "gpu-4-mig-1g10gb-19-1"],
    }
    gpus = [PublishedGpu(of(slot, LARGE_MENU), [Entry(device=name) for name in names]) for slot, names in shown.items()]
    # Taken, and not yet without what it excludes.
    closing = Entry(device="gpu-5", standing=Standing.CLOSING)
    gpus.append(PublishedGpu(of(5, LARGE_MENU), [closing, Entry(device="gpu-5-timeslicing")]))
    assert order(specs(gpus)) == [
        ["gpu-2-timeslicing", "gpu-1", "gpu-0-mig-1g10gb-19-0", "gpu-0", "gpu-0-timeslicing"],
        ["gpu-4-mig-1g10gb-19-0", "gpu-5-timeslicing", "gpu-3", "gpu-4-mig-1g10gb-19-1", "gpu-5"],
    ]


def kind(device: str) -> tuple[object, ...]:
    name = read_device(device)
    assert name
    return name.sharing, name.place and name.place.profile_id


@given(st.lists(offers, min_size=1, max_size=12), st.data())
def test_the_first_of_each_kind_comes_before_the_second_of_any(chosen: list[Offers], data: st.DataObject) -> None:
    """Of those that can be had."""
    gpus = []
    for slot, offer in enumerate(chosen):
        item = of(slot, offer)
        gpus.append(PublishedGpu(item, [replace(entry, standing=data.draw(standings)) for entry in full_menu(item)]))
    for spec in specs(gpus):
        found = spec.get("devices", ())
        free = [kind(device["name"]) for device in found if "taints" not in device]
        kinds = list(dict.fromkeys(free))
        assert free[: len(kinds)] == kinds
        assert [kind(device["name"]) for device in found][: len(kinds)] == kinds


def test_devices_of_another_slot_are_left_out() -> None:
    """Nobody can describe them."""
    item = offered(H100, MODES, 0)
    entries = full_menu(item)
    foreign = Entry(device="gpu-7-timeslicing", policy=POLICY.name)
    assert specs([PublishedGpu(item, [*entries, foreign])]) == specs([PublishedGpu(item, entries)])
