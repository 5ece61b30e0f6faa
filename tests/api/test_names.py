"""Names that cross a process border."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.api import names
from gpusharing.api.names import DeviceName, MigPlace, Sharing

slots = st.integers(min_value=0, max_value=10_000)
numbers = st.integers(min_value=0, max_value=99)


@given(slots)
def test_device_names_say_their_slot_and_sharing(slot: int) -> None:
    for name, sharing in (
        (names.whole_device(slot), Sharing.EXCLUSIVE),
        (names.time_sliced_device(slot), Sharing.TIME_SLICING),
        (names.mps_device(slot), Sharing.MPS),
    ):
        assert names.read_device(name) == DeviceName(slot, sharing)
        assert (names.slot_of_device(name), names.sharing_of_device(name)) == (slot, sharing)


@pytest.mark.parametrize(
    ("profile", "label"),
    [
        ("1g.10gb", "1g10gb"),
        ("1g.10gb+me", "1g10gb-me"),
        ("2g.48gb+me.all", "2g48gb-meall"),
        ("1g.24gb-me", "1g24gb-me"),
        ("4g.96gb+gfx", "4g96gb-gfx"),
    ],
)
@given(slots, st.builds(MigPlace, numbers, numbers))
def test_mig_devices_are_named_as_nvidia_names_them(profile: str, label: str, slot: int, place: MigPlace) -> None:
    name = names.mig_device(slot, profile, place)
    assert name == f"gpu-{slot}-mig-{label}-{place.profile_id}-{place.start}"
    assert names.read_device(name) == DeviceName(slot, Sharing.MIG, place)


@given(slots, st.integers(1, 999))
def test_a_device_is_the_same_under_each_of_its_names(slot: int, revision: int) -> None:
    part = names.mig_device(slot, "1g.10gb+me", MigPlace(20, 5))
    for device in (names.whole_device(slot), names.time_sliced_device(slot), names.mps_device(slot), part):
        other = names.at_revision(device, revision)
        assert other != device
        assert names.read_device(other) == names.read_device(device)
        assert names.revision_of_device(other) == revision
        assert names.at_revision(other, 0) == device


def test_what_names_look_like() -> None:
    assert names.at_revision("gpu-0", 1) == "gpu-0r1"
    assert names.at_revision("gpu-12r1-timeslicing", 2) == "gpu-12r2-timeslicing"
    assert names.at_revision("gpu-0-mig-1g10gb-me-20-5", 1) == "gpu-0r1-mig-1g10gb-me-20-5"


_PART, _LARGER_PART = "gpu-0-mig-1g10gb-19-6", "gpu-0-mig-3g40gb-9-0"
_OF_ONE_GPU = ("gpu-0", "gpu-0-timeslicing", "gpu-0-mps", _PART, _LARGER_PART)


@pytest.mark.parametrize(
    ("item", "covered"),
    [
        ("0", set(_OF_ONE_GPU)),
        ("gpu-0", {"gpu-0"}),
        ("gpu-0-timeslicing", {"gpu-0-timeslicing"}),
        ("gpu-0-mig", {_PART, _LARGER_PART}),
        (_PART, {_PART}),
        ("1", set()),
        ("gpu-0r1", {"gpu-0r1"}),
        ("0r1", {names.at_revision(device, 1) for device in _OF_ONE_GPU}),
        ("gpu-0r1-mig", {names.at_revision(device, 1) for device in (_PART, _LARGER_PART)}),
    ],
)
def test_what_an_item_of_the_closing_guard_covers(item: str, covered: set[str]) -> None:
    devices = [names.at_revision(device, revision) for device in _OF_ONE_GPU for revision in (0, 1, 11)]
    assert {device for device in devices if names.is_covered(device, ["7", item])} == covered
    assert not names.is_covered("gpu-10", [item])
    assert names.slot_of_item(item) == ("1" if item == "1" else "0")


@given(st.text(max_size=20) | st.from_regex(r"\Agpu-[0-9]{1,3}(-[a-z]+)?\n?\Z"))
def test_what_is_read_as_a_device_name_is_one_that_we_give(name: str) -> None:
    slot = names.slot_of_device(name)
    undivided = (names.whole_device, names.time_sliced_device, names.mps_device)
    ours = slot is not None and name in {named(slot) for named in undivided}
    assert ours == (slot is not None)
    assert ours == (names.sharing_of_device(name) is not None)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "gpu-",
        "gpu-x",
        "gpu--1",
        "gpu-00",
        "gpu-01",
        "gpu-0r",
        "gpu-0r0",
        "gpu-0r01",
        "gpu-0-r1",
        "gpu-r1",
        "gpu-0-",
        "gpu-0-timeslicing-1",
        "gpu-0-timeslicing\n",
        "gpu-0-mps-1",
        "gpu-0-mig",
        "gpu-0-mig-19-0",
        "gpu-0-mig-1g.10gb-19-0",
        "gpu-0-mig-1g10gb-19-00",
        "gpu-0-mig-1g10gb--19-0",
        "gpu-0-mig-1g10gb-19",
        "gpu-vfio-0",
        "GPU-0",
        "xgpu-0",
        "gpu-٣",
    ],
)
def test_other_names_are_nobodys(name: str) -> None:
    assert names.slot_of_device(name) is None
    assert names.sharing_of_device(name) is None


def test_the_longest_policy_name_fits_an_attribute_with_its_longest_suffix() -> None:
    assert names.MAX_POLICY_NAME + len("-timeslicing") <= 64


@pytest.mark.parametrize(
    ("pool", "node", "policy"),
    [("n1", "n1", None), ("n1/search", "n1", "search"), ("gpu-1.example.com/a.b", "gpu-1.example.com", "a.b")],
)
def test_pools_tell_their_node_and_whose_they_are(pool: str, node: str, policy: str | None) -> None:
    assert (names.node_of_pool(pool), names.policy_of_pool(pool)) == (node, policy)
    assert names.pool(node, restricted_to=policy) == pool
