"""How the slices in the API become the pool that we publish."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import DRIVER, EXCLUSIVE, NOW, gpu, time_slicing
from gpusharing.api.dra import ResourceSlice
from gpusharing.api.meta import WholeMeta
from gpusharing.api.sharing.offers import Offers
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing.devices import full_menu
from gpusharing.core.publishing.slice_updates import Create, Delete, PoolPlan, Update, plan_pool, slice_name
from gpusharing.core.publishing.slices import PublishedGpu, slice_specs

Slices = dict[str, ResourceSlice]


def offered(slot: int = 0, offers: Offers = EXCLUSIVE, **changes: Any) -> OfferedGpu:
    configured = changes.pop("configured", True)
    return OfferedGpu(gpu=gpu(slot, **changes), offers=offers, policy=None, configured=configured)


def published(item: OfferedGpu) -> PublishedGpu:
    return PublishedGpu(item, full_menu(item))


def plan_of(existing: Slices, gpus: Sequence[PublishedGpu], *, last_generation: int = 0) -> PoolPlan:
    def specs_at(generation: int) -> Sequence[dict[str, Any]]:
        return slice_specs(gpus, node="n1", pool="n1", driver=DRIVER, generation=generation)

    return plan_pool([*existing.values()], specs_at, pool="n1", driver=DRIVER, last_generation=last_generation)


def plan(existing: Slices, gpus: Sequence[OfferedGpu], *, last_generation: int = 0) -> PoolPlan:
    return plan_of(existing, [published(item) for item in gpus], last_generation=last_generation)


def stored(name: str, spec: dict[str, Any]) -> ResourceSlice:
    """As the API server keeps it: quantities in their shortest form, taints with the time."""
    kept = json.loads(json.dumps(spec))
    for device in kept.get("devices", ()):
        for taint in device.get("taints", ()):
            taint["timeAdded"] = "2026-11-18T12:00:00Z"
        memory = device["capacity"]["memory"]
        shorten(memory, "value")
        if "requestPolicy" in memory:
            shorten(memory["requestPolicy"]["validRange"], "max")
        for consumed in device.get("consumesCounters", ()):
            shorten(consumed["counters"]["memory"], "value")
    for counter_set in kept.get("sharedCounters", ()):
        shorten(counter_set["counters"]["memory"], "value")
    return ResourceSlice(metadata=WholeMeta(name=name, uid=f"uid-{name}"), spec=kept)


def shorten(quantities: dict[str, str], key: str) -> None:
    mebibytes = int(quantities[key].removesuffix("Mi"))
    for factor, unit in ((1024**2, "Ti"), (1024, "Gi")):
        if mebibytes % factor == 0:
            quantities[key] = f"{mebibytes // factor}{unit}"
            return


def carried_out(existing: Slices, done: Sequence[Create | Update | Delete]) -> Slices:
    slices = dict(existing)
    for write in done:
        match write:
            case Create(name, spec):
                assert name not in slices
                slices[name] = stored(name, spec)
            case Update(before, spec):
                slices[before.metadata.name] = stored(before.metadata.name, spec)
            case Delete(before):
                del slices[before.metadata.name]
    return slices


def publish(gpus: Sequence[OfferedGpu], existing: Slices | None = None, *, last_generation: int = 0) -> Slices:
    before = existing or {}
    return carried_out(before, plan(before, gpus, last_generation=last_generation).writes)


offers = st.sampled_from([EXCLUSIVE, time_slicing(4), time_slicing(2, exclusive=True)])
memory = st.sampled_from([15360, 81559, 1024, 1048576])
nodes = st.lists(st.tuples(offers, memory, st.booleans()), max_size=10).map(
    lambda items: [
        offered(slot, offer, memory_mib=size, configured=configured)
        for slot, (offer, size, configured) in enumerate(items)
    ]
)


@given(nodes)
def test_what_is_published_is_not_written_again(gpus: list[OfferedGpu]) -> None:
    assert plan(publish(gpus), gpus).writes == ()


@given(nodes, nodes, st.integers(min_value=0, max_value=5), st.data())
def test_from_any_state_one_pool_is_left(
    old: list[OfferedGpu], new: list[OfferedGpu], last_generation: int, data: st.DataObject
) -> None:
    """Also when the agent died between two writes, or somebody deleted slices."""
    existing = publish(old, last_generation=last_generation)
    writes = plan(existing, new, last_generation=last_generation).writes
    existing = carried_out(existing, writes[: data.draw(st.integers(min_value=0, max_value=len(writes)))])
    for name in data.draw(st.lists(st.sampled_from(sorted(existing)), unique=True) if existing else st.just([])):
        del existing[name]
    for item in existing.values():
        # A slice that the scheduler may still act on never goes back to an earlier generation.
        assert item.spec["pool"]["generation"] > last_generation
    after = publish(new, existing, last_generation=last_generation)
    assert plan(after, new, last_generation=last_generation).writes == ()
    assert {item.spec["pool"]["resourceSliceCount"] for item in after.values()} <= {len(after)}
    assert len({item.spec["pool"]["generation"] for item in after.values()}) <= 1


def test_a_gpu_changes_what_it_publishes_by_one_write_in_the_same_generation() -> None:
    both = time_slicing(exclusive=True)
    before = publish([offered(0, both), offered(1, both)])
    narrowed = PublishedGpu(offered(1, both), full_menu(offered(1, both))[1:])
    after = plan_of(before, [published(offered(0, both)), narrowed])
    [write] = after.writes
    assert isinstance(write, Update)
    assert write.before.metadata.name == slice_name(1, pool="n1", driver=DRIVER)
    assert after.generation == write.spec["pool"]["generation"] == 1


def test_other_slices_are_a_new_generation_of_everything() -> None:
    before = publish([offered(0)])
    after = plan(before, [offered(0, time_slicing(exclusive=True))])
    assert [type(write) for write in after.writes] == [Update, Create]
    assert after.generation == 2
    assert {item.spec["pool"]["generation"] for item in carried_out(before, after.writes).values()} == {2}


def test_a_device_that_goes_to_another_slice_is_a_new_generation() -> None:
    """Between the two writes it would be in both slices or in none."""

    def specs(*devices: str) -> Callable[[int], list[dict[str, Any]]]:
        return lambda generation: [
            {"pool": {"generation": generation}, "devices": [{"name": name} for name in names.split()]}
            for names in devices
        ]

    def writes(existing: Slices, *devices: str) -> PoolPlan:
        return plan_pool([*existing.values()], specs(*devices), pool="n1", driver=DRIVER, last_generation=0)

    stand = {
        write.name: ResourceSlice(metadata=WholeMeta(name=write.name), spec=write.spec)
        for write in writes({}, "a b", "c").writes
        if isinstance(write, Create)
    }
    assert [writes(stand, *there).generation for there in (("a b", "c"), ("b a", "c d"), ("b", "c"))] == [1, 1, 1]
    assert [len(writes(stand, *there).writes) for there in (("a b", "c"), ("b a", "c d"), ("b", "c"))] == [0, 2, 1]
    for there in (("a", "b c"), ("c", "a b"), ("a b c", "")):
        moved = writes(stand, *there)
        assert (moved.generation, len(moved.writes)) == (2, 2)


def test_generations_go_on_after_a_wipe() -> None:
    """The kubelet deletes all slices of a driver that is gone for long; the scheduler may still know them."""
    after = plan({}, [offered(0)], last_generation=7)
    assert after.generation == 8
    assert {type(write) for write in after.writes} == {Create}


def test_the_last_gpu_takes_its_slices_along() -> None:
    before = publish([offered(0)])
    assert {type(write) for write in plan(before, []).writes} == {Delete}
    assert publish([], before) == {}


def test_nothing_is_written_where_nothing_is_to_be() -> None:
    assert plan({}, [], last_generation=3) == PoolPlan(3, ())
    assert plan({}, []) == PoolPlan(0, ())


def test_slices_of_an_earlier_generation_are_all_written_anew() -> None:
    """The writes of a later one were begun, as the record on disk says, and what became of them nobody knows."""
    several = offered(0, time_slicing(exclusive=True))
    after = plan(publish([several]), [several], last_generation=4)
    assert after.generation == 5
    assert [type(write) for write in after.writes] == [Update, Update]


@pytest.mark.parametrize("key", ["devices", "sharedCounters"])
def test_a_slice_that_somebody_edited_is_repaired(key: str) -> None:
    several = offered(0, time_slicing(exclusive=True))
    before = publish([several])
    [name] = [name for name, item in before.items() if key in item.spec]
    edited = before | {name: ResourceSlice(metadata=before[name].metadata, spec=before[name].spec | {key: []})}
    [write] = plan(edited, [several]).writes
    assert isinstance(write, Update)
    assert carried_out(edited, [write]) == before


def test_the_pool_of_tenants_has_slices_of_its_own() -> None:
    pools = ["n1", "n1/search", "n1/n1", "search-n1", "n1-search"]
    names = {slice_name(index, pool=pool, driver=DRIVER) for pool in pools for index in range(3)}
    assert len(names) == 3 * len(pools)
    assert slice_name(1, pool="n1/search", driver=DRIVER) == "00001-search-gpu.nvidia.com-n1"


def test_a_taint_that_stays_keeps_its_time() -> None:
    """How long a claim tolerates it is counted from there."""

    def with_taint(effect: str, **changes: Any) -> dict[str, Any]:
        device = {"name": "gpu-0", "taints": [{"key": "gpusharing.dev/draining", "effect": effect}], **changes}
        return {"pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}, "devices": [device]}

    def update(wanted: dict[str, Any]) -> list[dict[str, Any]]:
        found = plan_pool([before], lambda _: [wanted], pool="n1", driver=DRIVER, last_generation=1)
        return [write.spec["devices"][0]["taints"][0] for write in found.writes if isinstance(write, Update)]

    stored_spec = with_taint("NoExecute")
    stored_spec["devices"][0]["taints"][0]["timeAdded"] = NOW
    before = ResourceSlice(metadata=WholeMeta(name=slice_name(0, pool="n1", driver=DRIVER)), spec=stored_spec)
    assert update(with_taint("NoExecute")) == []
    assert [taint["timeAdded"] for taint in update(with_taint("NoExecute", capacity={}))] == [NOW]
    assert ["timeAdded" in taint for taint in update(with_taint("NoSchedule"))] == [False]
    assert "timeAdded" not in with_taint("NoExecute")["devices"][0]["taints"][0]


def test_slices_are_named_in_the_order_in_which_the_scheduler_shall_fill_them() -> None:
    names = [slice_name(index, pool="n1", driver=DRIVER) for index in (0, 1, 9, 10, 15, 16, 4_000)]
    assert names == sorted(names)
    assert names[0] == "00000-gpu.nvidia.com-n1"
