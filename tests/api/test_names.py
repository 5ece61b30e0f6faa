"""Names that cross a process border."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.api import names
from gpusharing.api.names import Sharing

slots = st.integers(min_value=0, max_value=10_000)


@given(slots)
def test_device_names_say_their_slot_and_sharing(slot: int) -> None:
    whole, shared = names.whole_device(slot), names.time_sliced_device(slot)
    assert (names.slot_of_device(whole), names.sharing_of_device(whole)) == (slot, Sharing.EXCLUSIVE)
    assert (names.slot_of_device(shared), names.sharing_of_device(shared)) == (slot, Sharing.TIME_SLICING)


@given(st.text(max_size=20) | st.from_regex(r"\Agpu-[0-9]{1,3}(-[a-z]+)?\n?\Z"))
def test_what_is_read_as_a_device_name_is_one_that_we_give(name: str) -> None:
    slot = names.slot_of_device(name)
    ours = slot is not None and name in {names.whole_device(slot), names.time_sliced_device(slot)}
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
        "gpu-0-",
        "gpu-0-timeslicing-1",
        "gpu-0-timeslicing\n",
        "gpu-0-mig-1g10gb-19-0",
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
