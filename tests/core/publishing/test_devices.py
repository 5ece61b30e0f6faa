"""What a node offers the scheduler."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import DRIVER, EXCLUSIVE, boards, gpu, time_slicing
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.offers import Interval, MpsMemory, MpsOffer, MpsThreads, Offers
from gpusharing.api.sharing.tenants import Allowance
from gpusharing.core.devices.gpu import Gpu
from gpusharing.core.devices.offered import AS_FOUND, OfferedGpu
from gpusharing.core.devices.options import exclude_each_other
from gpusharing.core.publishing import devices as published_devices
from gpusharing.core.publishing import slices
from gpusharing.core.publishing.attributes import semantic_version
from gpusharing.core.publishing.devices import full_menu
from gpusharing.core.publishing.entries import Standing
from gpusharing.core.publishing.slices import PublishedGpu

THIRDS = PolicyReference(name="thirds", generation=3)


def offered(
    found: Gpu | None = None,
    offers: Offers = EXCLUSIVE,
    policy: PolicyReference | None = THIRDS,
    *,
    configured: bool = True,
) -> OfferedGpu:
    return OfferedGpu(gpu=found or gpu(), offers=offers, policy=policy, configured=configured)


def devices(item: OfferedGpu) -> list[dict[str, Any]]:
    return published_devices.devices(item, full_menu(item))


def slice_specs(items: Sequence[OfferedGpu], *, generation: int) -> list[dict[str, Any]]:
    gpus = [PublishedGpu(item, full_menu(item)) for item in items]
    return slices.slice_specs(gpus, node="n1", pool="n1", driver=DRIVER, generation=generation)


class Model(NamedTuple):
    gpu: Gpu
    attributes: dict[str, Any]
    """Those that all devices of this GPU have."""
    memory: str


# As nodes with these boards report them; written out, because users select by them.
MODELS = {
    "T4": Model(
        Gpu(
            uuid="GPU-8a2c1b7e-1111-4a7b-9d9e-000000000001",
            slot=0,
            minor=0,
            product_name="Tesla T4",
            brand="Nvidia",
            architecture="Turing",
            memory_mib=15360,
            compute_capability=(7, 5),
            driver_version="535.104.05",
            cuda_driver_version=(12, 2),
            pci_bus_id="0000:00:04.0",
        ),
        {
            "uuid": {"string": "GPU-8a2c1b7e-1111-4a7b-9d9e-000000000001"},
            "productName": {"string": "Tesla T4"},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Turing"},
            "cudaComputeCapability": {"version": "7.5.0"},
            "driverVersion": {"version": "535.104.5"},
            "cudaDriverVersion": {"version": "12.2.0"},
            "resource.kubernetes.io/pciBusID": {"string": "0000:00:04.0"},
        },
        "15360Mi",
    ),
    "A100": Model(
        Gpu(
            uuid="GPU-8a2c1b7e-2222-4a7b-9d9e-000000000002",
            slot=3,
            minor=5,
            product_name="NVIDIA A100-SXM4-40GB",
            brand="Nvidia",
            architecture="Ampere",
            memory_mib=40960,
            compute_capability=(8, 0),
            driver_version="580.173.02",
            cuda_driver_version=(13, 0),
            pci_bus_id="0000:07:00.0",
            pcie_root="pci0000:00",
            numa_node=0,
        ),
        {
            "uuid": {"string": "GPU-8a2c1b7e-2222-4a7b-9d9e-000000000002"},
            "productName": {"string": "NVIDIA A100-SXM4-40GB"},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Ampere"},
            "cudaComputeCapability": {"version": "8.0.0"},
            "driverVersion": {"version": "580.173.2"},
            "cudaDriverVersion": {"version": "13.0.0"},
            "resource.kubernetes.io/pciBusID": {"string": "0000:07:00.0"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
            "resource.kubernetes.io/numaNode": {"int": 0},
        },
        "40960Mi",
    ),
    "H100": Model(
        Gpu(
            uuid="GPU-8a2c1b7e-3333-4a7b-9d9e-000000000003",
            slot=0,
            minor=0,
            product_name="NVIDIA H100 80GB HBM3",
            brand="Nvidia",
            architecture="Hopper",
            memory_mib=81559,
            compute_capability=(9, 0),
            driver_version="610.10",
            cuda_driver_version=(13, 4),
            pci_bus_id="0000:1b:00.0",
            numa_node=1,
        ),
        {
            "uuid": {"string": "GPU-8a2c1b7e-3333-4a7b-9d9e-000000000003"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Hopper"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "driverVersion": {"version": "610.10.0"},
            "cudaDriverVersion": {"version": "13.4.0"},
            "resource.kubernetes.io/pciBusID": {"string": "0000:1b:00.0"},
            "resource.kubernetes.io/numaNode": {"int": 1},
        },
        "81559Mi",
    ),
    "B200": Model(
        Gpu(
            uuid="GPU-8a2c1b7e-4444-4a7b-9d9e-000000000004",
            slot=7,
            minor=7,
            product_name="NVIDIA B200",
            brand="Nvidia",
            architecture="Blackwell",
            memory_mib=183359,
            compute_capability=(10, 0),
            driver_version="580.65.06",
            cuda_driver_version=(13, 0),
            pci_bus_id="0001:8f:00.0",
            pcie_root="pci0001:80",
        ),
        {
            "uuid": {"string": "GPU-8a2c1b7e-4444-4a7b-9d9e-000000000004"},
            "productName": {"string": "NVIDIA B200"},
            "brand": {"string": "Nvidia"},
            "architecture": {"string": "Blackwell"},
            "cudaComputeCapability": {"version": "10.0.0"},
            "driverVersion": {"version": "580.65.6"},
            "cudaDriverVersion": {"version": "13.0.0"},
            "resource.kubernetes.io/pciBusID": {"string": "0001:8f:00.0"},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0001:80"},
        },
        "183359Mi",
    ),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Model:
    return MODELS[request.param]


POLICY = {"gpusharing.dev/policy": {"string": "thirds"}}


def whole(model: Model, **more: Any) -> dict[str, Any]:
    attributes = {"type": {"string": "gpu"}, "gpusharing.dev/sharing": {"string": "Exclusive"}}
    return {
        "name": f"gpu-{model.gpu.slot}",
        "attributes": model.attributes | attributes | more.pop("attributes", POLICY),
        "capacity": {"memory": {"value": model.memory}},
        **more,
    }


def shared(model: Model, **more: Any) -> dict[str, Any]:
    attributes = {"type": {"string": "shared"}, "gpusharing.dev/sharing": {"string": "TimeSlicing"}}
    return {
        "name": f"gpu-{model.gpu.slot}-timeslicing",
        "attributes": model.attributes | attributes | more.pop("attributes", POLICY),
        "allowMultipleAllocations": True,
        "capacity": {
            "shares": {
                "value": "6",
                "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1", "max": "6"}},
            },
            "memory": {
                "value": model.memory,
                "requestPolicy": {"default": "0", "validRange": {"min": "0", "max": model.memory}},
            },
        },
        **more,
    }


def test_a_whole_gpu(model: Model) -> None:
    assert devices(offered(model.gpu)) == [whole(model)]


def test_a_gpu_as_it_is_found_belongs_to_no_policy(model: Model) -> None:
    assert devices(offered(model.gpu, AS_FOUND, None)) == [whole(model, attributes={})]


def test_a_time_sliced_gpu(model: Model) -> None:
    assert devices(offered(model.gpu, time_slicing(6, Interval.LONG))) == [shared(model)]


def test_both_ways_exclude_each_other_by_counters(model: Model) -> None:
    counters = [{"counterSet": f"gpu-{model.gpu.slot}-counter-set", "counters": {"memory": {"value": model.memory}}}]
    assert devices(offered(model.gpu, time_slicing(6, exclusive=True))) == [
        whole(model, consumesCounters=counters),
        shared(model, consumesCounters=counters),
    ]


def test_a_node_that_has_not_been_told_offers_nothing_without_a_taint(model: Model) -> None:
    taints = [{"key": "gpusharing.dev/unconfigured", "effect": "NoSchedule"}]
    assert devices(offered(model.gpu, AS_FOUND, None, configured=False)) == [whole(model, attributes={}, taints=taints)]
    both = offered(model.gpu, time_slicing(6, exclusive=True), configured=False)
    assert [device["taints"] for device in devices(both)] == [taints, taints]


@pytest.mark.parametrize("evicts", [False, True])
def test_only_who_holds_what_is_draining_is_evicted(model: Model, evicts: bool) -> None:
    item = replace(offered(model.gpu, time_slicing(6, exclusive=True)), evicts=evicts)
    entries = [
        replace(entry, standing=standing)
        for entry, standing in zip(full_menu(item), (Standing.CLOSING, Standing.DRAINING), strict=True)
    ]
    closing, draining = published_devices.devices(item, entries)
    assert closing["taints"] == [{"key": "gpusharing.dev/closing", "effect": "NoSchedule"}]
    assert draining["taints"] == [{"key": "gpusharing.dev/draining", "effect": "NoExecute" if evicts else "NoSchedule"}]


@pytest.mark.parametrize(
    ("allow", "shares", "memory"),
    [
        (None, "6", None),
        (Allowance(), "6", None),
        (Allowance(max_shares=2, max_memory="8Gi"), "2", "8192Mi"),
        (Allowance(max_shares=256, max_memory="9Ti"), "6", None),
    ],
)
def test_one_claim_gets_no_more_of_a_share_than_is_allowed(
    model: Model, allow: Allowance | None, shares: str, memory: str | None
) -> None:
    [device] = devices(replace(offered(model.gpu, time_slicing(6)), allow=allow))
    assert device["capacity"]["shares"]["requestPolicy"]["validRange"]["max"] == shares
    assert device["capacity"]["memory"]["requestPolicy"]["validRange"]["max"] == (memory or model.memory)


@pytest.mark.parametrize(
    ("most", "allow", "memory", "threads"),
    [
        (None, None, "81559Mi", "100"),
        ("20480Mi", None, "20480Mi", "100"),
        ("20480Mi", Allowance(max_memory="10Gi", max_threads=50), "10240Mi", "50"),
        ("20480Mi", Allowance(max_memory="30Gi"), "20480Mi", "100"),
        # Such an offer is refused; what is left of it drains, and the API takes no default out of its range.
        ("20480Mi", Allowance(max_memory="1Gi", max_threads=10), "8192Mi", "25"),
    ],
)
def test_one_claim_gets_no_more_of_mps_than_is_allowed(
    most: str | None, allow: Allowance | None, memory: str, threads: str
) -> None:
    offer = MpsOffer(max_clients=4, memory=MpsMemory(default="8192Mi", max=most), threads=MpsThreads(default=25))
    [device] = devices(replace(offered(MODELS["H100"].gpu, Offers(mps=offer)), allow=allow))
    found = {name: one["requestPolicy"]["validRange"]["max"] for name, one in device["capacity"].items()}
    assert (found["memory"], found["threads"]) == (memory, threads)


def test_a_gpu_that_is_not_well_is_offered_to_nobody_new(model: Model) -> None:
    """Each of its devices, beside whatever else keeps people away; and nobody is evicted."""
    ill = {"key": "gpusharing.dev/unhealthy", "value": "GpuLost", "effect": "NoSchedule"}
    both = offered(model.gpu, time_slicing(6, exclusive=True))
    names = [device["name"] for device in devices(both)]
    both = replace(both, unhealthy=dict.fromkeys(names, "GpuLost"))
    assert [device["taints"] for device in devices(both)] == [[ill], [ill]]
    unknown = {"key": "gpusharing.dev/unconfigured", "effect": "NoSchedule"}
    assert [device["taints"] for device in devices(replace(both, configured=False))] == [[unknown, ill]] * 2
    one = replace(both, unhealthy={names[0]: "GpuLost"})
    assert [device.get("taints") for device in devices(one)] == [[ill], None]


def test_devices_that_cannot_be_prepared_get_no_new_claim(model: Model) -> None:
    held = {"key": "gpusharing.dev/held", "effect": "NoSchedule"}
    both = offered(model.gpu, time_slicing(6, exclusive=True))
    names = [device["name"] for device in devices(both)]
    one = replace(both, held=frozenset(names[:1]))
    assert [device.get("taints") for device in devices(one)] == [[held], None]


def test_without_an_agent_no_device_gets_a_new_claim(model: Model) -> None:
    stopped = {"key": "gpusharing.dev/agent-stopped", "effect": "NoSchedule"}
    both = replace(offered(model.gpu, time_slicing(6, exclusive=True)), agent_stopped=True)
    assert [device["taints"] for device in devices(both)] == [[stopped], [stopped]]


@pytest.mark.parametrize(
    ("one", "other", "excluded"),
    [
        ("gpu-0", "gpu-0", True),
        ("gpu-0", "gpu-0-timeslicing", True),
        ("gpu-0-timeslicing", "gpu-0-mps", True),
        ("gpu-0-timeslicing", "gpu-0-timeslicing", False),
        ("gpu-0-mps", "gpu-0-mps", False),
        ("gpu-0-mig-1g10gb-19-0", "gpu-0", True),
        ("gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-0", True),
        ("gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-1", False),
        ("gpu-0-mig-1g10gb-19-0", "gpu-0-mig-7g80gb-0-0", True),
    ],
)
def test_devices_that_exclude_each_other(one: str, other: str, excluded: bool) -> None:
    divisible = replace(gpu(0), mig=boards.board("H100-80GB").mig)
    assert exclude_each_other(divisible, one, other) is exclude_each_other(divisible, other, one) is excluded


def test_the_slices_of_a_pool() -> None:
    a, b = offered(gpu(0), time_slicing(exclusive=True)), offered(gpu(1))
    pool = {"name": "n1", "generation": 5, "resourceSliceCount": 2}
    common = {"driver": DRIVER, "nodeName": "n1", "pool": pool}
    assert slice_specs([a, b], generation=5) == [
        common
        | {
            "sharedCounters": [
                {"name": "gpu-0-counter-set", "counters": {"memory": {"value": "81559Mi"}}},
                {"name": "gpu-1-counter-set", "counters": {"memory": {"value": "81559Mi"}}},
            ]
        },
        # Whoever wants a whole GPU meets the one that is nothing else first, and nobody meets two before it.
        common | {"devices": devices(b) + devices(a)[1:] + devices(a)[:1]},
    ]


def test_where_nothing_excludes_anything_there_is_one_slice() -> None:
    one = slice_specs([offered(gpu(0)), offered(gpu(1), time_slicing())], generation=1)
    assert [[device["name"] for device in slice_["devices"]] for slice_ in one] == [["gpu-1-timeslicing", "gpu-0"]]


def test_a_node_without_gpus_has_no_slices() -> None:
    assert slice_specs([], generation=1) == []


@pytest.mark.parametrize(
    ("reported", "published"),
    [
        ("580.173.02", "580.173.2"),
        ("535.104.05", "535.104.5"),
        ("610.10", "610.10.0"),
        ("9", "9.0.0"),
        ("", "0.0.0"),
        ("580.00.00", "580.0.0"),
        ("580.65.06-beta2", "580.65.6"),
        ("v1.2.3.4", "1.2.3"),
    ],
)
def test_driver_versions(reported: str, published: str) -> None:
    assert semantic_version(reported) == published


@pytest.mark.parametrize(
    ("reported", "published"),
    [("x" * 64, "x" * 64), ("x" * 65, "x" * 64), ("é" * 40, "é" * 32), ("x" + "é" * 40, "x" + "é" * 31)],
)
def test_long_strings_are_cut_between_characters(reported: str, published: str) -> None:
    [device] = devices(offered(gpu(product_name=reported)))
    assert device["attributes"]["productName"] == {"string": published}


# https://semver.org, without pre-release and build, which we never write.
SEMVER = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=100)
versions = st.tuples(st.integers(min_value=0, max_value=99), st.integers(min_value=0, max_value=99))
offers = st.builds(
    time_slicing, st.integers(min_value=2, max_value=256), st.sampled_from(Interval), exclusive=st.booleans()
) | st.just(EXCLUSIVE)
gpus = st.builds(
    gpu,
    st.just(0),
    product_name=words,
    brand=words,
    driver_version=st.from_regex(r"\A[0-9]{1,4}(\.[0-9]{1,3}){0,3}[a-z-]{0,5}\Z"),
    compute_capability=versions,
    cuda_driver_version=versions,
    memory_mib=st.integers(min_value=1, max_value=10**6),
    pcie_root=st.none() | words,
    numa_node=st.none() | st.integers(min_value=0, max_value=16),
)
policies = st.none() | st.builds(PolicyReference, name=st.just("p" * 52), generation=st.just(1))
offered_gpus = st.builds(OfferedGpu, gpu=gpus, offers=offers, policy=policies, configured=st.booleans())
nodes = st.lists(offered_gpus, max_size=20).map(
    lambda items: [
        OfferedGpu(
            gpu=gpu(slot, memory_mib=item.gpu.memory_mib),
            offers=item.offers,
            policy=item.policy,
            configured=item.configured,
        )
        for slot, item in enumerate(items)
    ]
)


@given(offered_gpus)
def test_attributes_keep_to_the_limits_of_the_api(item: OfferedGpu) -> None:
    for device in devices(item):
        assert len(device["attributes"]) + len(device["capacity"]) <= 32
        for name, attribute in device["attributes"].items():
            [(kind, value)] = attribute.items()
            match kind:
                case "string":
                    assert len(value.encode()) <= 64, name
                case "version":
                    assert SEMVER.fullmatch(value), name
                    assert len(value) <= 64, name
                case _:
                    assert (kind, type(value)) == ("int", int), name


@given(offered_gpus)
def test_a_plain_request_never_takes_all_of_a_shared_device(item: OfferedGpu) -> None:
    for device in devices(item):
        shareable = device.get("allowMultipleAllocations", False)
        for name, capacity in device["capacity"].items():
            # The API refuses a policy where nothing is shared, and without one all of it is consumed.
            assert ("requestPolicy" in capacity) == shareable, name
            if shareable and name == "shares":
                policy = capacity["requestPolicy"]
                limits = {key: int(value) for key, value in policy["validRange"].items()}
                assert limits["min"] <= int(policy["default"]) <= limits["max"] == int(capacity["value"])
                assert limits["min"] + limits["step"] <= int(capacity["value"])


@given(nodes, st.integers(min_value=1, max_value=99))
def test_pools_keep_to_the_limits_of_the_api(items: Sequence[OfferedGpu], generation: int) -> None:
    slices = slice_specs(items, generation=generation)
    counted = any(len(full_menu(item)) > 1 for item in items)
    # There is room for all devices of this test in one slice, and for eight sets of counters.
    assert len(slices) == bool(items) + (math.ceil(len(items) / 8) if counted else 0)
    assert all(
        slice_["pool"] == {"name": "n1", "generation": generation, "resourceSliceCount": len(slices)}
        for slice_ in slices
    )
    sets: dict[str, Any] = {}
    names: list[str] = []
    for slice_ in slices:
        assert ("devices" in slice_) != ("sharedCounters" in slice_)
        assert len(slice_.get("sharedCounters", [])) <= 8
        assert len(slice_.get("devices", [])) <= 64
        sets |= {item["name"]: item["counters"] for item in slice_.get("sharedCounters", [])}
        names += [device["name"] for device in slice_.get("devices", [])]
    assert len(sets) == (len(items) if counted else 0)
    assert len(set(names)) == len(names)
    for slice_ in slices:
        for device in slice_.get("devices", []):
            for consumed in device.get("consumesCounters", []):
                # Each way takes all of the GPU: that is what makes them exclude each other.
                assert consumed["counters"] == sets[consumed["counterSet"]]


@given(nodes)
def test_counters_only_where_two_ways_are_offered(items: Sequence[OfferedGpu]) -> None:
    for item in items:
        published = devices(item)
        assert [("consumesCounters" in device) for device in published] == [len(published) > 1] * len(published)


@given(st.data(), nodes)
def test_the_order_does_not_depend_on_what_came_first(data: st.DataObject, items: Sequence[OfferedGpu]) -> None:
    slices = slice_specs(items, generation=1)
    assert slice_specs(data.draw(st.permutations(items)), generation=1) == slices
