"""In which ways each model is offered, whatever the offers are."""

import itertools
from typing import Any

import pytest

from building.boards import ALL, MIG_CAPABLE, board, profile_names
from gpusharing.api import names
from gpusharing.api.names import MigPlace
from gpusharing.api.sharing.gpu_status import MemoryWallSupport
from gpusharing.api.sharing.node_spec import PolicyReference
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
from gpusharing.core.devices.gpu import MigInstance
from gpusharing.core.devices.offered import AS_FOUND, OfferedGpu
from gpusharing.core.policies.resolution import resolve
from gpusharing.core.publishing.devices import devices, full_menu, remembered
from gpusharing.core.publishing.entries import Entry, Standing
from gpusharing.core.publishing.menu import menu, whole_only

POLICY = PolicyReference(name="p" * names.MAX_POLICY_NAME, generation=1)
RESETS = ("A30", "A100-40GB", "A100-80GB")

MODES = ("exclusive", "timeSlicing", "mps", "mig")
COMBINATIONS = [chosen for size in range(1, 5) for chosen in itertools.combinations(MODES, size)]


def offers(chosen: tuple[str, ...], profiles: tuple[str, ...]) -> Offers:
    return Offers(
        exclusive=ExclusiveOffer() if "exclusive" in chosen else None,
        time_slicing=TimeSlicingOffer(max_clients=4, memory=TimeSlicingMemory(default="25%"))
        if "timeSlicing" in chosen
        else None,
        mps=MpsOffer(max_clients=4, memory=MpsMemory(default="10%", max="50%"), threads=MpsThreads(default=25, min=5))
        if "mps" in chosen
        else None,
        mig=MigOffer(profiles=profiles) if "mig" in chosen and profiles else None,
    )


def offered(model: str, chosen: tuple[str, ...], slot: int = 0, **more: Any) -> OfferedGpu:
    """With every profile that the GPU knows."""
    gpu = board(model, slot, addressing_mode="HMM", pcie_root="pci0000:00", numa_node=1)
    wanted = offers(chosen, profile_names(gpu))
    more = {"memory_wall": MemoryWallSupport(supported=True)} | more
    resolution = resolve(wanted, gpu=gpu, mig_profiles=profile_names(gpu), memory_wall=more["memory_wall"])
    return OfferedGpu(gpu=gpu, offers=resolution.offers, policy=POLICY, configured=True, **more)


def shown(item: OfferedGpu) -> list[str]:
    return [option.device for option in menu(item)]


def placements(model: str) -> int:
    mig = board(model).mig
    return sum(len(profile.starts) for profile in mig.profiles) if mig else 0


@pytest.mark.parametrize("chosen", COMBINATIONS, ids="+".join)
@pytest.mark.parametrize("model", ALL)
def test_every_combination_on_every_model(model: str, chosen: tuple[str, ...]) -> None:
    item = offered(model, chosen)
    undivided = [
        device
        for mode, device in (("exclusive", "gpu-0"), ("timeSlicing", "gpu-0-timeslicing"), ("mps", "gpu-0-mps"))
        if mode in chosen
    ]
    can_be_cut = "mig" in chosen and model in MIG_CAPABLE and model not in RESETS
    found = shown(item)
    assert found[: len(undivided)] == undivided
    assert len(found) == len(undivided) + (placements(model) if can_be_cut else 0)
    assert len(set(found)) == len(found)
    assert [names.read_device(device) is not None for device in found] == [True] * len(found)
    published = devices(item, full_menu(item))
    assert [("consumesCounters" in device) for device in published] == [len(found) > 1] * len(found)
    assert [option.device for option in whole_only(menu(item))] == (["gpu-0"] if "exclusive" in chosen else found)


@pytest.mark.parametrize("model", RESETS)
def test_where_mig_mode_needs_a_reset_the_mode_decides(model: str) -> None:
    assert shown(offered(model, MODES)) == ["gpu-0", "gpu-0-timeslicing", "gpu-0-mps"]
    found = shown(offered(model, MODES, mig_enabled=True))
    assert len(found) == placements(model)
    assert all("-mig-" in device for device in found)
    assert shown(offered(model, ("exclusive",), mig_enabled=True)) == []
    assert shown(offered(model, ("mig",))) == []


def instance(profile_id: int, start: int, uuid: str | None = "MIG-1") -> MigInstance:
    return MigInstance(place=MigPlace(profile_id, start), uuid=uuid)


HALF = instance(9, 4)
SMALL = instance(19, 0, "MIG-2")


def as_found(*instances: MigInstance, mig_enabled: bool = True) -> OfferedGpu:
    return OfferedGpu(
        gpu=board("H100-80GB"),
        offers=AS_FOUND,
        policy=None,
        configured=True,
        mig_enabled=mig_enabled,
        instances=instances,
    )


def test_without_a_policy_a_gpu_is_offered_as_it_is_found() -> None:
    assert shown(as_found(mig_enabled=False)) == ["gpu-0"]
    assert shown(as_found()) == []
    item = as_found(HALF, SMALL)
    assert shown(item) == ["gpu-0-mig-1g10gb-19-0", "gpu-0-mig-3g40gb-9-4"]
    for device in devices(item, full_menu(item)):
        assert "consumesCounters" not in device
    # Remnants, and what the driver does not know, nobody could use.
    assert shown(as_found(instance(9, 0, None), instance(99, 4))) == []


def test_a_layout_is_offered_as_it_was_cut() -> None:
    item = OfferedGpu(
        gpu=board("H100-80GB"),
        offers=Offers(mig=MigOffer(layout={"3g.40gb": 1, "1g.10gb": 1})),
        policy=POLICY,
        configured=True,
        mig_enabled=True,
        instances=(HALF, SMALL),
    )
    assert shown(item) == ["gpu-0-mig-1g10gb-19-0", "gpu-0-mig-3g40gb-9-4"]
    first = devices(item, full_menu(item))[0]
    assert first["attributes"]["uuid"] == {"string": "MIG-2"}
    assert first["capacity"]["memorySlice0"] == {"value": "1"}


def test_instances_of_others_block_what_overlaps_them() -> None:
    item = offered("H100-80GB", MODES, mig_enabled=True, instances=(HALF,))
    found = shown(item)
    assert not {"gpu-0", "gpu-0-timeslicing", "gpu-0-mps", "gpu-0-mig-3g40gb-9-4"} & set(found)
    assert {"gpu-0-mig-3g40gb-9-0", "gpu-0-mig-1g10gb-19-3"} <= set(found)
    assert "gpu-0-mig-1g10gb-19-4" not in found
    assert shown(offered("H100-80GB", MODES, mig_enabled=True, instances=(instance(99, 0),))) == []


def device(item: OfferedGpu, entry: Entry) -> dict[str, Any]:
    [found] = devices(item, [entry])
    return found


def test_capacities_of_shared_devices() -> None:
    item = offered("H100-80GB", MODES)
    assert device(item, Entry(device="gpu-0-mps"))["capacity"] == {
        "shares": {
            "value": "4",
            "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1", "max": "4"}},
        },
        "memory": {
            "value": "81559Mi",
            "requestPolicy": {"default": "8155Mi", "validRange": {"min": "1Mi", "max": "40779Mi"}},
        },
        "threads": {
            "value": "100",
            "requestPolicy": {"default": "25", "validRange": {"min": "5", "step": "1", "max": "100"}},
        },
    }
    assert device(item, Entry(device="gpu-0-timeslicing"))["capacity"]["memory"] == {
        "value": "81559Mi",
        "requestPolicy": {"default": "20389Mi", "validRange": {"min": "1Mi", "max": "81559Mi"}},
    }


def test_a_mig_device_is_what_nvidia_says_that_it_is() -> None:
    item = offered("H100-80GB", ("mig",))
    found = device(item, Entry(device="gpu-0-mig-1g10gb-me-20-5", policy="p"))
    assert found["attributes"] | {} == {
        "type": {"string": "mig"},
        "parentUUID": {"string": "GPU-n1-0"},
        "profile": {"string": "1g.10gb+me"},
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": "Hopper"},
        "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": "580.173.2"},
        "cudaDriverVersion": {"version": "13.0.0"},
        "addressingMode": {"string": "HMM"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:01:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
        "resource.kubernetes.io/numaNode": {"int": 1},
        "gpusharing.dev/sharing": {"string": "MIG"},
        "gpusharing.dev/policy": {"string": "p"},
    }
    assert found["capacity"] == {
        "multiprocessors": {"value": "16"},
        "copyEngines": {"value": "1"},
        "decoders": {"value": "1"},
        "encoders": {"value": "0"},
        "jpegEngines": {"value": "1"},
        "ofaEngines": {"value": "1"},
        "memory": {"value": "9984Mi"},
    }


def test_a_whole_gpu_can_be_compared_with_its_parts() -> None:
    assert set(device(offered("H100-80GB", ("exclusive",)), Entry(device="gpu-0"))["capacity"]) == {"memory"}
    capacity = device(offered("H100-80GB", ("exclusive", "mig")), Entry(device="gpu-0"))["capacity"]
    assert capacity["multiprocessors"] == {"value": "132"}
    assert capacity["memory"] == {"value": "81559Mi"}


@pytest.mark.parametrize(
    ("standing", "attributes", "taints"),
    [
        (Standing.OPEN, {}, []),
        (Standing.CLOSING, {"gpusharing.dev/closing": {"bool": True}}, ["gpusharing.dev/closing"]),
        (
            Standing.DRAINING,
            {"gpusharing.dev/closing": {"bool": True}, "gpusharing.dev/draining": {"bool": True}},
            ["gpusharing.dev/draining"],
        ),
    ],
)
def test_who_may_have_a_device(standing: Standing, attributes: dict[str, Any], taints: list[str]) -> None:
    found = device(offered("L4", ("exclusive",)), Entry(device="gpu-0", standing=standing))
    ours = {name for name in found["attributes"] if name.startswith("gpusharing.dev/")}
    assert {name: found["attributes"][name] for name in ours - {"gpusharing.dev/sharing"}} == attributes
    assert [(taint["key"], taint["effect"]) for taint in found.get("taints", [])] == [
        (key, "NoSchedule") for key in taints
    ]


def type_of(item: OfferedGpu, name: str) -> str:
    found: str = device(item, Entry(device=name))["attributes"]["type"]["string"]
    return found


def test_types() -> None:
    plain, restricted = offered("H100-80GB", MODES), offered("H100-80GB", MODES, restricted=True)
    share, mig = "gpu-0-timeslicing", "gpu-0-mig-1g10gb-19-0"
    assert [type_of(plain, name) for name in ("gpu-0", share, "gpu-0-mps", mig)] == ["gpu", "shared", "shared", "mig"]
    assert [type_of(restricted, name) for name in ("gpu-0", share, mig)] == ["restricted", "shared", "mig"]
    transparent = Offers(time_slicing=TimeSlicingOffer(max_clients=2, transparent=True))
    for restricts, type_ in ((False, "gpu"), (True, "restricted")):
        item = OfferedGpu(gpu=board("L4"), offers=transparent, policy=POLICY, configured=True, restricted=restricts)
        assert type_of(item, share) == type_


@pytest.mark.parametrize(
    ("enforcement", "supported", "told"),
    [
        (Enforcement.REQUIRED, True, True),
        (Enforcement.PREFERRED, True, True),
        (Enforcement.PREFERRED, False, False),
        # Where there could be walls, and nobody builds any.
        (Enforcement.NONE, True, False),
        (None, True, None),
    ],
)
def test_memory_walls_can_be_selected_by(
    *, enforcement: Enforcement | None, supported: bool, told: bool | None
) -> None:
    memory = TimeSlicingMemory(default="1024Mi", enforcement=enforcement) if enforcement else None
    item = OfferedGpu(
        gpu=board("L4"),
        offers=Offers(time_slicing=TimeSlicingOffer(max_clients=2, memory=memory)),
        policy=POLICY,
        configured=True,
        memory_wall=MemoryWallSupport(supported=supported),
    )
    attributes = device(item, Entry(device="gpu-0-timeslicing"))["attributes"]
    assert attributes.get("gpusharing.dev/memoryWall") == (None if told is None else {"bool": told})


def test_what_is_on_its_way_out_is_described_as_it_was() -> None:
    before, wanted = offered("L4", ("timeSlicing", "mps")).offers, offered("L4", ("exclusive",)).offers
    entries = [Entry(device="gpu-0"), Entry(device="gpu-0-timeslicing", standing=Standing.DRAINING)]
    both = remembered(wanted, before, entries)
    assert (both.exclusive, both.time_slicing, both.mps) == (wanted.exclusive, before.time_slicing, None)


@pytest.mark.parametrize("model", MIG_CAPABLE)
def test_the_largest_instance_keeps_to_the_limits_as_well(model: str) -> None:
    gpu = board(model, addressing_mode="HMM", pcie_root="pci0000:00", numa_node=1)
    assert gpu.mig is not None
    largest = max(gpu.mig.profiles, key=lambda profile: profile.size)
    item = OfferedGpu(
        gpu=gpu,
        offers=Offers(mig=MigOffer(layout={largest.name: 1})),
        policy=POLICY,
        configured=True,
        restricted=True,
        mig_enabled=True,
        instances=(instance(largest.id, 0),),
    )
    [entry] = full_menu(item)
    found = device(item, Entry(device=entry.device, policy="p", standing=Standing.DRAINING))
    assert len(found["attributes"]) + len(found["capacity"]) <= 32
