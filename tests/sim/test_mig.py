"""GPU instances, compute instances and MIG devices."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint
from pathlib import Path
from typing import Any

import pynvml as nvml
import pytest

from gpusharing import sim
from sim import calls
from sim.conftest import RunProgram, UseNvml

INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, IN_USE, INSUFFICIENT_RESOURCES = 2, 3, 4, 6, 19, 23

MIB = 1024 * 1024

pytestmark = pytest.mark.usefixtures("root")


@pytest.fixture
def node(tmp_path: Path, use_nvml: UseNvml) -> sim.SimNode:
    node = sim.create(tmp_path / "node", "A100-80GB:2,L4", seed="mig")
    use_nvml(node)
    return node


@pytest.fixture
def gpu(node: sim.SimNode) -> calls.Handle:
    return calls.enable_mig()


def create(gpu: calls.Handle, profile_id: int, start: int, size: int) -> int:
    placement = nvml.c_nvmlGpuInstancePlacement_t(start, size)
    return calls.error_of(nvml.nvmlDeviceCreateGpuInstanceWithPlacement, gpu, profile_id, byref(placement))


def test_nothing_without_mig_mode(node: sim.SimNode) -> None:
    gpu = calls.gpu(1)
    assert create(gpu, 19, 0, 1) == NOT_SUPPORTED
    assert calls.error_of(nvml.nvmlDeviceCreateGpuInstance, gpu, 19) == NOT_SUPPORTED
    assert calls.error_of(nvml.nvmlDeviceGetGpuInstanceById, gpu, 0) == NOT_SUPPORTED
    assert calls.error_of(nvml.nvmlDeviceGetGpuInstanceRemainingCapacity, gpu, 19) == NOT_SUPPORTED
    assert nvml.nvmlDeviceGetMaxMigDeviceCount(gpu) == 0
    assert calls.error_of(nvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, 0) == INVALID_ARGUMENT


def test_nothing_on_a_gpu_without_mig(node: sim.SimNode) -> None:
    l4 = calls.gpu(2)
    assert calls.error_of(nvml.nvmlDeviceGetMigMode, l4) == NOT_SUPPORTED
    assert calls.error_of(nvml.nvmlDeviceSetMigMode, l4, 1) == NOT_SUPPORTED
    assert calls.error_of(nvml.nvmlDeviceGetGpuInstanceProfileInfo, l4, 0) == NOT_SUPPORTED
    assert calls.error_of(nvml.nvmlDeviceGetMigDeviceHandleByIndex, l4, 0) == NOT_SUPPORTED
    assert nvml.nvmlDeviceGetMaxMigDeviceCount(l4) == 0


@pytest.mark.parametrize(
    ("profile_id", "start", "size", "code"),
    [
        (9, 0, 4, 0),
        (9, 4, 4, 0),
        (9, 2, 4, INVALID_ARGUMENT),
        (9, 0, 3, INVALID_ARGUMENT),
        (9, 4, 8, INVALID_ARGUMENT),
        (9, 0xFFFFFFFF, 4, INVALID_ARGUMENT),
        (19, 6, 1, 0),
        (19, 7, 1, INVALID_ARGUMENT),
        (15, 6, 2, 0),
        (14, 6, 2, INVALID_ARGUMENT),
        (0, 0, 8, 0),
        (2, 0, 4, INVALID_ARGUMENT),
        (99, 0, 1, INVALID_ARGUMENT),
    ],
)
def test_placements(gpu: calls.Handle, profile_id: int, start: int, size: int, code: int) -> None:
    assert create(gpu, profile_id, start, size) == code


@pytest.mark.parametrize(
    ("there", "wanted", "code"),
    [
        ([("3g.40gb", 0)], ("3g.40gb", 0), INSUFFICIENT_RESOURCES),
        ([("3g.40gb", 0)], ("3g.40gb", 4), 0),
        ([("3g.40gb", 4)], ("4g.40gb", 0), 0),
        ([("4g.40gb", 0)], ("3g.40gb", 0), INSUFFICIENT_RESOURCES),
        ([("1g.10gb", 3)], ("3g.40gb", 0), INSUFFICIENT_RESOURCES),
        ([("1g.10gb", 3)], ("2g.20gb", 0), 0),
        ([("1g.10gb", 3)], ("7g.80gb", 0), INSUFFICIENT_RESOURCES),
        ([("1g.10gb+me", 0)], ("1g.10gb+me", 1), INSUFFICIENT_RESOURCES),
        ([("1g.10gb+me", 0)], ("1g.10gb", 1), 0),
        ([("1g.20gb", 6)], ("1g.10gb", 6), INSUFFICIENT_RESOURCES),
    ],
)
def test_occupied_placements(
    gpu: calls.Handle, there: list[tuple[str, int]], wanted: tuple[str, int], code: int
) -> None:
    for name, start in there:
        calls.place(gpu, name, start)
    assert calls.error_of(calls.place, gpu, *wanted) == code


@pytest.mark.parametrize(
    ("model", "pair", "code"),
    [
        ("A30", ("1g.6gb+me", "2g.12gb+me"), INSUFFICIENT_RESOURCES),
        ("A30", ("1g.6gb+me", "2g.12gb"), 0),
        ("A30", ("2g.12gb+me", "1g.6gb"), 0),
        ("RTX-PRO-6000", ("1g.24gb+me.all", "1g.24gb-me"), 0),
        ("RTX-PRO-6000", ("1g.24gb+me.all", "1g.24gb"), INSUFFICIENT_RESOURCES),
        ("RTX-PRO-6000", ("1g.24gb+me.all", "2g.48gb+gfx"), INSUFFICIENT_RESOURCES),
        ("RTX-PRO-6000", ("1g.24gb+me.all", "2g.48gb+me.all"), INSUFFICIENT_RESOURCES),
        ("RTX-PRO-6000", ("2g.48gb-me", "1g.24gb+me.all"), 0),
        ("RTX-PRO-6000", ("1g.24gb", "1g.24gb+me.all"), INSUFFICIENT_RESOURCES),
        ("RTX-PRO-6000", ("1g.24gb", "2g.48gb+gfx"), 0),
        ("RTX-PRO-6000", ("1g.24gb", "1g.24gb+me"), 0),
    ],
)
def test_media_engines(tmp_path: Path, use_nvml: UseNvml, model: str, pair: tuple[str, str], code: int) -> None:
    there, wanted = pair
    use_nvml(sim.create(tmp_path / "other", model))
    gpu = calls.enable_mig()
    calls.place(gpu, there, 0)
    profile = calls.profile(gpu, wanted)
    last = max(start for start, _ in calls.placements(gpu, profile.id))
    capacity = nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, profile.id)
    assert calls.error_of(calls.place, gpu, wanted, last) == code
    assert (capacity > 0) == (code == 0)


def test_remaining_capacity(gpu: calls.Handle) -> None:
    def capacities() -> dict[str, int]:
        return {info.name: nvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, info.id) for info in calls.profiles(gpu)}

    none = dict.fromkeys(capacities(), 0)
    whole = none | {
        "1g.10gb": 7,
        "1g.10gb+me": 1,
        "1g.20gb": 4,
        "2g.20gb": 3,
        "3g.40gb": 2,
        "4g.40gb": 1,
        "7g.80gb": 1,
    }
    assert capacities() == whole
    instance = calls.place(gpu, "3g.40gb", 4)
    half = none | {"1g.10gb": 4, "1g.10gb+me": 1, "1g.20gb": 2, "2g.20gb": 2, "3g.40gb": 1, "4g.40gb": 1}
    assert capacities() == half
    calls.place(gpu, "4g.40gb", 0)
    assert capacities() == none
    nvml.nvmlGpuInstanceDestroy(instance)
    assert capacities() == none | {"1g.10gb": 3, "1g.10gb+me": 1, "1g.20gb": 2, "2g.20gb": 1, "3g.40gb": 1}


def test_the_driver_chooses_a_place(gpu: calls.Handle) -> None:
    """In its own order, in which big instances do not fit after small ones any more."""
    chosen = [nvml.nvmlGpuInstanceGetInfo(nvml.nvmlDeviceCreateGpuInstance(gpu, 19)) for _ in range(7)]
    assert [info.placement.start for info in chosen] == [6, 4, 5, 0, 1, 2, 3]
    assert calls.error_of(nvml.nvmlDeviceCreateGpuInstance, gpu, 19) == INSUFFICIENT_RESOURCES
    for instance in calls.gpu_instances(gpu):
        nvml.nvmlGpuInstanceDestroy(instance)

    for profile_id in (19, 19, 14):
        nvml.nvmlDeviceCreateGpuInstance(gpu, profile_id)
    calls.place(gpu, "1g.10gb", 2)
    assert calls.error_of(nvml.nvmlDeviceCreateGpuInstance, gpu, 9) == INSUFFICIENT_RESOURCES


def test_ids_are_those_of_places(gpu: calls.Handle) -> None:
    def ids(name: str) -> list[int]:
        found = []
        for start, _ in calls.placements(gpu, calls.profile(gpu, name).id):
            instance = calls.place(gpu, name, start)
            found.append(nvml.nvmlGpuInstanceGetInfo(instance).id)
            nvml.nvmlGpuInstanceDestroy(instance)
        return found

    assert ids("7g.80gb") == [0]
    assert ids("4g.40gb") == [1]
    assert ids("3g.40gb") == [1, 2]
    assert ids("2g.20gb") == [3, 4, 5]
    assert ids("1g.20gb") == [3, 4, 5, 6]
    assert ids("1g.10gb") == [7, 8, 9, 10, 11, 12, 13]


def test_instances_are_found_again(gpu: calls.Handle) -> None:
    calls.place(gpu, "3g.40gb", 4)
    calls.place(gpu, "1g.10gb", 0)
    calls.place(gpu, "1g.10gb", 2)
    count, array = c_uint(0), (nvml.c_nvmlGpuInstance_t * 7)()
    nvml.nvmlDeviceGetGpuInstances(gpu, 19, array, byref(count))
    infos = [nvml.nvmlGpuInstanceGetInfo(array[i]) for i in range(count.value)]
    assert [(info.id, info.profileId, info.placement.start, info.placement.size) for info in infos] == [
        (7, 19, 0, 1),
        (9, 19, 2, 1),
    ]
    assert nvml.nvmlDeviceGetUUID(infos[0].device) == nvml.nvmlDeviceGetUUID(gpu)
    found = nvml.nvmlGpuInstanceGetInfo(nvml.nvmlDeviceGetGpuInstanceById(gpu, 2))
    assert (found.id, found.profileId, found.placement.start) == (2, 9, 4)
    for absent in (0, 8, 14, 15, 1000):
        assert calls.error_of(nvml.nvmlDeviceGetGpuInstanceById, gpu, absent) == NOT_FOUND
    assert calls.error_of(nvml.nvmlDeviceGetGpuInstances, gpu, 99, array, byref(count)) == INVALID_ARGUMENT


def test_order_of_destruction(gpu: calls.Handle) -> None:
    instance = calls.place(gpu, "2g.20gb", 0)
    first, second = (nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0) for _ in range(2))
    assert calls.error_of(nvml.nvmlGpuInstanceDestroy, instance) == IN_USE
    nvml.nvmlComputeInstanceDestroy(first)
    assert calls.error_of(nvml.nvmlGpuInstanceDestroy, instance) == IN_USE
    nvml.nvmlComputeInstanceDestroy(second)
    nvml.nvmlGpuInstanceDestroy(instance)
    assert calls.gpu_instances(gpu) == []


def test_instances_in_use(node: sim.SimNode, gpu: calls.Handle) -> None:
    instance = calls.place(gpu, "2g.20gb", 0)
    used, unused = (nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0) for _ in range(2))
    uuid = nvml.nvmlDeviceGetUUID(calls.device_of(used))
    node.start_process(uuid, 4711, 100 * MIB)
    assert calls.error_of(nvml.nvmlComputeInstanceDestroy, used) == IN_USE
    nvml.nvmlComputeInstanceDestroy(unused)
    assert calls.error_of(nvml.nvmlGpuInstanceDestroy, instance) == IN_USE
    node.stop_process(uuid, 4711)
    nvml.nvmlComputeInstanceDestroy(used)
    nvml.nvmlGpuInstanceDestroy(instance)


@pytest.mark.parametrize(
    ("name", "profile_id", "starts"),
    [
        ("7g.80gb", 0, [0, 1, 2, 3, 4, 5, 6]),
        ("7g.80gb", 1, [0, 2, 4]),
        ("7g.80gb", 2, [0, 4]),
        ("7g.80gb", 3, [0]),
        ("7g.80gb", 4, [0]),
        ("3g.40gb", 1, [0]),
        ("1g.20gb", 0, [0]),
    ],
)
def test_compute_instances_fill_up(gpu: calls.Handle, name: str, profile_id: int, starts: list[int]) -> None:
    instance = calls.place(gpu, name, 0)
    count = c_uint(0)
    nvml.nvmlGpuInstanceGetComputeInstancePossiblePlacements(instance, profile_id, None, byref(count))
    array = (nvml.c_nvmlComputeInstancePlacement_t * count.value)()
    nvml.nvmlGpuInstanceGetComputeInstancePossiblePlacements(instance, profile_id, array, byref(count))
    assert [placement.start for placement in array] == starts
    for created in range(len(starts)):
        left = len(starts) - created
        assert nvml.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(instance, profile_id) == left
        info = nvml.nvmlComputeInstanceGetInfo(nvml.nvmlGpuInstanceCreateComputeInstance(instance, profile_id))
        assert (info.id, info.profileId, info.placement.start) == (created, profile_id, starts[created])
    assert calls.error_of(nvml.nvmlGpuInstanceCreateComputeInstance, instance, profile_id) == INSUFFICIENT_RESOURCES


def test_compute_instances_with_placement(gpu: calls.Handle) -> None:
    instance = calls.place(gpu, "7g.80gb", 0)

    def create(profile_id: int, start: int, size: int) -> int:
        placement = nvml.c_nvmlComputeInstancePlacement_t(start, size)
        call = nvml.nvmlGpuInstanceCreateComputeInstanceWithPlacement
        return calls.error_of(call, instance, profile_id, byref(placement))

    assert create(2, 4, 3) == 0
    assert create(2, 4, 3) == INSUFFICIENT_RESOURCES
    assert create(2, 2, 3) == INVALID_ARGUMENT
    assert create(3, 0, 3) == INVALID_ARGUMENT
    assert create(3, 0, 4) == 0
    assert create(0, 0, 1) == INSUFFICIENT_RESOURCES
    assert create(5, 0, 8) == NOT_SUPPORTED
    assert calls.error_of(nvml.nvmlGpuInstanceCreateComputeInstance, instance, 99) == NOT_SUPPORTED


def test_compute_instances_are_found_again(gpu: calls.Handle) -> None:
    instance = calls.place(gpu, "4g.40gb", 0)
    first = nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
    nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)
    nvml.nvmlGpuInstanceCreateComputeInstance(instance, 1)
    nvml.nvmlComputeInstanceDestroy(first)

    count, array = c_uint(0), (nvml.c_nvmlComputeInstance_t * 4)()
    nvml.nvmlGpuInstanceGetComputeInstances(instance, 0, array, byref(count))
    infos = [nvml.nvmlComputeInstanceGetInfo(array[i]) for i in range(count.value)]
    assert [(info.id, info.placement.start, info.placement.size) for info in infos] == [(1, 1, 1)]
    assert nvml.nvmlGpuInstanceGetInfo(infos[0].gpuInstance).id == 1
    assert nvml.nvmlComputeInstanceGetInfo(nvml.nvmlGpuInstanceGetComputeInstanceById(instance, 2)).profileId == 1
    assert calls.error_of(nvml.nvmlGpuInstanceGetComputeInstanceById, instance, 0) == NOT_FOUND
    again = nvml.nvmlComputeInstanceGetInfo(nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0))
    assert (again.id, again.placement.start) == (0, 0)


def test_mig_device(gpu: calls.Handle) -> None:
    instance = calls.place(gpu, "3g.40gb", 4)
    device = calls.device_of(calls.fill(instance))
    uuid = nvml.nvmlDeviceGetUUID(device)
    assert uuid.startswith("MIG-")
    assert len(uuid) == 40
    assert nvml.nvmlDeviceGetName(device) == "NVIDIA A100-SXM4-80GB MIG 3g.40gb"
    assert nvml.nvmlDeviceIsMigDeviceHandle(device).value == 1
    assert nvml.nvmlDeviceIsMigDeviceHandle(gpu).value == 0
    assert nvml.nvmlDeviceGetGpuInstanceId(device) == 2
    assert nvml.nvmlDeviceGetComputeInstanceId(device) == 0
    assert calls.error_of(nvml.nvmlDeviceGetGpuInstanceId, gpu) == INVALID_ARGUMENT
    parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)
    assert nvml.nvmlDeviceGetUUID(parent) == nvml.nvmlDeviceGetUUID(gpu)
    found = nvml.nvmlDeviceGetHandleByUUID(uuid)
    assert nvml.nvmlDeviceGetUUID(found) == uuid
    attributes = nvml.nvmlDeviceGetAttributes(device)
    assert (attributes.multiprocessorCount, attributes.sharedCopyEngineCount, attributes.sharedDecoderCount) == (
        42,
        3,
        2,
    )
    assert (attributes.gpuInstanceSliceCount, attributes.computeInstanceSliceCount) == (3, 3)
    assert attributes.memorySizeMB == 40192
    assert calls.error_of(nvml.nvmlDeviceGetAttributes, gpu) == NOT_SUPPORTED


def test_what_a_mig_device_does_not_answer(gpu: calls.Handle) -> None:
    """It is not published what drivers say; ours always says that the handle is wrong, so that the parent is asked."""
    device = calls.mig_device(gpu, "1g.10gb", 0)
    for call in (
        nvml.nvmlDeviceGetPciInfo,
        nvml.nvmlDeviceGetMinorNumber,
        nvml.nvmlDeviceGetSerial,
        nvml.nvmlDeviceGetMigMode,
        nvml.nvmlDeviceGetMaxMigDeviceCount,
        nvml.nvmlDeviceGetEccMode,
        nvml.nvmlDeviceGetSupportedEventTypes,
    ):
        assert calls.error_of(call, device) == INVALID_ARGUMENT, call


def test_smaller_compute_instances_share_their_gpu_instance(node: sim.SimNode, gpu: calls.Handle) -> None:
    instance = calls.place(gpu, "3g.40gb", 0)
    devices = [calls.device_of(nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)) for _ in range(3)]
    assert [nvml.nvmlDeviceGetName(device).split()[-1] for device in devices] == ["1c.3g.40gb"] * 3
    assert [nvml.nvmlDeviceGetAttributes(device).multiprocessorCount for device in devices] == [14] * 3
    node.start_process(nvml.nvmlDeviceGetUUID(devices[0]), 1, 1000 * MIB)
    memory = [nvml.nvmlDeviceGetMemoryInfo(device) for device in devices]
    assert {(info.total // MIB, info.used // MIB, info.free // MIB) for info in memory} == {(40192, 1000, 39192)}
    assert [len(nvml.nvmlDeviceGetComputeRunningProcesses(device)) for device in devices] == [1, 0, 0]


def test_indexes_of_mig_devices_have_gaps(gpu: calls.Handle) -> None:
    instances = [calls.place(gpu, "1g.10gb", start) for start in range(4)]
    compute = [calls.fill(instance) for instance in instances]
    assert nvml.nvmlDeviceGetMaxMigDeviceCount(gpu) == 7
    assert list(calls.mig_devices(gpu)) == [0, 1, 2, 3]
    nvml.nvmlComputeInstanceDestroy(compute[1])
    nvml.nvmlGpuInstanceDestroy(instances[1])
    assert list(calls.mig_devices(gpu)) == [0, 2, 3]
    assert calls.error_of(nvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, 1) == NOT_FOUND
    assert calls.error_of(nvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, 7) == INVALID_ARGUMENT
    device = calls.mig_device(gpu, "1g.10gb", 6)
    assert nvml.nvmlDeviceGetIndex(device) == 1


def test_gpu_instance_alone_is_no_mig_device(gpu: calls.Handle) -> None:
    calls.place(gpu, "1g.10gb", 0)
    assert calls.mig_devices(gpu) == {}
    assert len(calls.gpu_instances(gpu)) == 1


def test_each_instance_has_a_uuid_of_its_own(gpu: calls.Handle) -> None:
    uuids = set()
    for _ in range(20):
        instance = calls.place(gpu, "1g.10gb", 0)
        compute = calls.fill(instance)
        uuids.add(nvml.nvmlDeviceGetUUID(calls.device_of(compute)))
        nvml.nvmlComputeInstanceDestroy(compute)
        nvml.nvmlGpuInstanceDestroy(instance)
    assert len(uuids) == 20


def test_seed_decides_the_uuids_of_instances(tmp_path: Path, use_nvml: UseNvml) -> None:
    uuids = []
    for name, seed in (("a", "same"), ("b", "same"), ("c", "other")):
        use_nvml(sim.create(tmp_path / name, "H100-80GB", seed=seed))
        uuids.append(nvml.nvmlDeviceGetUUID(calls.mig_device(calls.enable_mig(), "1g.10gb", 0)))
    assert uuids[0] == uuids[1] != uuids[2]


def test_handles_of_what_is_gone(gpu: calls.Handle) -> None:
    """Also when something else is at the same place."""
    instance = calls.place(gpu, "1g.10gb", 0)
    compute = calls.fill(instance)
    device = calls.device_of(compute)
    uuid = nvml.nvmlDeviceGetUUID(device)
    nvml.nvmlComputeInstanceDestroy(compute)
    nvml.nvmlGpuInstanceDestroy(instance)
    new = calls.mig_device(gpu, "1g.10gb", 0)
    for call, handle in (
        (nvml.nvmlDeviceGetUUID, device),
        (nvml.nvmlDeviceGetMemoryInfo, device),
        (nvml.nvmlComputeInstanceGetInfo, compute),
        (nvml.nvmlComputeInstanceDestroy, compute),
        (nvml.nvmlGpuInstanceGetInfo, instance),
        (nvml.nvmlGpuInstanceDestroy, instance),
    ):
        assert calls.error_of(call, handle) == INVALID_ARGUMENT, call
    assert calls.error_of(nvml.nvmlDeviceGetHandleByUUID, uuid) == NOT_FOUND
    assert nvml.nvmlDeviceGetUUID(new) != uuid


def test_handles_of_the_wrong_kind(gpu: calls.Handle) -> None:
    library = nvml.nvmlLib
    instance = calls.place(gpu, "1g.10gb", 0)
    compute = calls.fill(instance)
    device = calls.device_of(compute)
    handles = {"gpu": gpu, "gpu instance": instance, "compute instance": compute, "mig device": device}
    buffer = ctypes.create_string_buffer(512)
    accepted = {
        "nvmlDeviceGetIndex": {"gpu", "mig device"},
        "nvmlGpuInstanceGetInfo": {"gpu instance"},
        "nvmlComputeInstanceGetInfo_v2": {"compute instance"},
        "nvmlDeviceGetGpuInstanceId": {"mig device"},
        "nvmlDeviceGetMinorNumber": {"gpu"},
    }
    for function, kinds in accepted.items():
        results = {kind: library[function](handle, buffer) for kind, handle in handles.items()}
        assert results == {kind: 0 if kind in kinds else INVALID_ARGUMENT for kind in handles}, function


def test_another_process_sees_and_destroys(node: sim.SimNode, gpu: calls.Handle, run_program: RunProgram) -> None:
    instance = calls.place(gpu, "3g.40gb", 0)
    uuid = nvml.nvmlDeviceGetUUID(calls.device_of(calls.fill(instance)))
    assert run_program("destroy_all.py", env=node.environment()) == [uuid]
    assert calls.error_of(nvml.nvmlGpuInstanceGetInfo, instance) == INVALID_ARGUMENT
    assert calls.gpu_instances(gpu) == []


def test_processes_of_instances(node: sim.SimNode, gpu: calls.Handle) -> None:
    instance = calls.place(gpu, "2g.20gb", 2)
    devices = [calls.device_of(nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0)) for _ in range(2)]
    other = calls.mig_device(gpu, "1g.10gb", 0)
    for pid, device in enumerate((*devices, other), start=100):
        node.start_process(nvml.nvmlDeviceGetUUID(device), pid, 10 * MIB)

    def listed(handle: calls.Handle) -> list[tuple[int, int, int]]:
        infos: list[Any] = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        return [(info.pid, info.gpuInstanceId, info.computeInstanceId) for info in infos]

    assert listed(devices[0]) == [(100, 4, 0)]
    assert listed(devices[1]) == [(101, 4, 1)]
    assert listed(other) == [(102, 7, 0)]
    assert listed(gpu) == [(100, 4, 0), (101, 4, 1), (102, 7, 0)]
    assert [process.gpu_instance for process in node.gpus()[0].processes] == [4, 4, 7]
    with pytest.raises(sim.SimError, match="has only"):
        node.start_process(nvml.nvmlDeviceGetUUID(devices[0]), 103, 19949 * MIB)


def test_python_sees_the_same(node: sim.SimNode, gpu: calls.Handle) -> None:
    instance = calls.place(gpu, "3g.40gb", 4)
    device = calls.device_of(nvml.nvmlGpuInstanceCreateComputeInstance(instance, 1))
    first, second, _ = node.gpus()
    assert first.mig_mode == sim.MigMode(current=True, pending=True)
    assert second.mig_mode == sim.MigMode(current=False, pending=False)
    uuid = nvml.nvmlDeviceGetUUID(device)
    compute = sim.ComputeInstance(id=0, profile="2c.3g.40gb", start=0, size=2, uuid=uuid, index=0)
    assert first.gpu_instances == (
        sim.GpuInstance(id=2, profile="3g.40gb", start=4, size=4, compute_instances=(compute,)),
    )


def test_root_only(node: sim.SimNode, gpu: calls.Handle, run_program: RunProgram) -> None:
    calls.mig_device(gpu, "2g.20gb", 0)
    report = run_program("unprivileged.py", env=node.environment())
    assert report.pop("refused") == dict.fromkeys(
        (
            "nvmlComputeInstanceDestroy",
            "nvmlDeviceCreateGpuInstance",
            "nvmlDeviceCreateGpuInstanceWithPlacement",
            "nvmlDeviceGetComputeRunningProcesses",
            "nvmlDeviceGetGpuInstanceById",
            "nvmlDeviceGetGpuInstancePossiblePlacements",
            "nvmlDeviceGetGpuInstanceRemainingCapacity",
            "nvmlDeviceGetGpuInstances",
            "nvmlDeviceGetMemoryInfo",
            "nvmlDeviceSetMigMode",
            "nvmlGpuInstanceCreateComputeInstance",
            "nvmlGpuInstanceDestroy",
            "nvmlGpuInstanceGetComputeInstanceById",
        ),
        NO_PERMISSION,
    )
    assert report == {"mode": [1, 1], "memory of the device": 19968 * MIB, "processes of the device": []}
