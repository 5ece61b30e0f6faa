"""The C interface below nvidia-ml-py: sizes, codes and what is exported, through a library loaded into this process."""

from __future__ import annotations

import ctypes
import re
import subprocess
from ctypes import byref, c_char_p, c_int, c_uint, c_void_p, create_string_buffer
from pathlib import Path
from typing import Any

import pynvml as nvml
import pytest

from gpusharing import sim
from gpusharing.sim.build import SOURCES

UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE, VERSION_MISMATCH = 1, 2, 3, 6, 7, 25

SYMBOLS = {
    "nvmlComputeInstanceDestroy",
    "nvmlComputeInstanceGetInfo",
    "nvmlComputeInstanceGetInfo_v2",
    "nvmlDeviceCreateGpuInstance",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlDeviceGetAddressingMode",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetAttributes",
    "nvmlDeviceGetAttributes_v2",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetGpuFabricInfo",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetGpuInstanceById",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetGpuInstancePossiblePlacements",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetGpuInstanceProfileInfo",
    "nvmlDeviceGetGpuInstanceProfileInfoByIdV",
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstanceRemainingCapacity",
    "nvmlDeviceGetGpuInstances",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByPciBusId",
    "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses_v2",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetMemoryLimits_v1",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetName",
    "nvmlDeviceGetNumaNodeId",
    "nvmlDeviceGetNvLinkRemotePciInfo",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkVersion",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetPciInfo_v2",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceGetTopologyCommonAncestor",
    "nvmlDeviceGetTopologyNearestGpus",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetVirtualizationMode",
    "nvmlDeviceIsMigDeviceHandle",
    "nvmlDeviceRegisterEvents",
    "nvmlDeviceSetComputeMode",
    "nvmlDeviceSetMemoryLimits_v1",
    "nvmlDeviceSetMigMode",
    "nvmlErrorString",
    "nvmlEventSetCreate",
    "nvmlEventSetFree",
    "nvmlEventSetWait",
    "nvmlEventSetWait_v2",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
    "nvmlGpuInstanceDestroy",
    "nvmlGpuInstanceGetComputeInstanceById",
    "nvmlGpuInstanceGetComputeInstancePossiblePlacements",
    "nvmlGpuInstanceGetComputeInstanceProfileInfo",
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV",
    "nvmlGpuInstanceGetComputeInstanceRemainingCapacity",
    "nvmlGpuInstanceGetComputeInstances",
    "nvmlGpuInstanceGetInfo",
    "nvmlInit",
    "nvmlInitWithFlags",
    "nvmlInit_v2",
    "nvmlShutdown",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
}
WORK_BEFORE_INIT = {"nvmlInit", "nvmlInitWithFlags", "nvmlInit_v2", "nvmlErrorString"}

STRUCTURES = {
    "nvmlMemory_t": nvml.c_nvmlMemory_t,
    "nvmlMemory_v2_t": nvml.c_nvmlMemory_v2_t,
    "nvmlPciInfo_t": nvml.nvmlPciInfo_t,
    "nvmlProcessInfo_t": nvml.c_nvmlProcessInfo_v2_t,
    "nvmlProcessUtilizationSample_t": nvml.c_nvmlProcessUtilizationSample_t,
    "nvmlDeviceAddressingMode_t": nvml.c_nvmlDeviceAddressingMode_t,
    "nvmlGpuInstancePlacement_t": nvml.c_nvmlGpuInstancePlacement_t,
    "nvmlGpuInstanceProfileInfo_t": nvml.c_nvmlGpuInstanceProfileInfo_t,
    "nvmlGpuInstanceProfileInfo_v2_t": nvml.c_nvmlGpuInstanceProfileInfo_v2_t,
    "nvmlGpuInstanceInfo_t": nvml.c_nvmlGpuInstanceInfo_t,
    "nvmlComputeInstancePlacement_t": nvml.c_nvmlComputeInstancePlacement_t,
    "nvmlComputeInstanceProfileInfo_t": nvml.c_nvmlComputeInstanceProfileInfo_t,
    "nvmlComputeInstanceProfileInfo_v2_t": nvml.c_nvmlComputeInstanceProfileInfo_v2_t,
    "nvmlComputeInstanceInfo_t": nvml.c_nvmlComputeInstanceInfo_t,
    "nvmlDeviceAttributes_t": nvml.c_nvmlDeviceAttributes,
    "nvmlEventData_t": nvml.c_nvmlEventData_t,
    "nvmlGpuFabricInfo_t": nvml.c_nvmlGpuFabricInfo_t,
    "nvmlGpuFabricInfo_v2_t": nvml.c_nvmlGpuFabricInfo_v2_t,
    "nvmlGpuFabricInfo_v3_t": nvml.c_nvmlGpuFabricInfo_v3_t,
    "nvmlFieldValue_t": nvml.c_nvmlFieldValue_t,
    "nvmlSetMemoryLimits_v1_t": nvml.c_nvmlSetMemoryLimits_v1_t,
    "nvmlGetMemoryLimits_v1_t": nvml.c_nvmlGetMemoryLimits_v1_t,
}


@pytest.fixture
def node(tmp_path: Path) -> sim.SimNode:
    """With the newest driver: it has all functions."""
    return sim.create(tmp_path / "node", "H100-80GB:2,L4:1", driver="615")


@pytest.fixture
def library(node: sim.SimNode) -> ctypes.CDLL:
    return ctypes.CDLL(str(node.library))


@pytest.fixture
def gpu(library: ctypes.CDLL) -> c_void_p:
    handle = c_void_p()
    assert library.nvmlInit_v2() == 0
    assert library.nvmlDeviceGetHandleByIndex_v2(0, byref(handle)) == 0
    return handle


def test_exported_symbols(node: sim.SimNode) -> None:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=just-symbols", node.library],
        check=True,
        capture_output=True,
        text=True,
    )
    private = {
        "gpusharingSimGetTimeslice",
        "gpusharingSimSetTimeslice",
        "gpusharingSimResetGpu",
        "gpusharingSimGetQuirks",
    }
    assert set(listing.stdout.split()) == {*SYMBOLS, *private}


def test_symbols_of_the_bindings() -> None:
    """Nothing is exported that neither nvidia-ml-py nor go-nvml, which takes unversioned names too, would look for."""
    source = Path(nvml.__file__).read_text()
    known = set(re.findall(r'_nvmlGetFunctionPointer\("(\w+)"\)', source))
    assert {re.sub(r"_v\d$", "", symbol) for symbol in SYMBOLS} - {
        re.sub(r"_v\d$", "", symbol) for symbol in known
    } == {"nvmlInit"}


def test_soname(node: sim.SimNode) -> None:
    dynamic = subprocess.run(["readelf", "-d", node.library], check=True, capture_output=True, text=True)
    assert "soname: [libnvidia-ml.so.1]" in dynamic.stdout


def test_structures_are_those_of_the_binding(tmp_path: Path) -> None:
    lines = [
        line
        for name, structure in STRUCTURES.items()
        for line in (
            f'printf("{name} %zu\\n", sizeof({name}));',
            *(f'printf("{name}.{field[0]} %zu\\n", offsetof({name}, {field[0]}));' for field in structure._fields_),
        )
    ]
    source = tmp_path / "sizes.c"
    source.write_text(
        '#include <stddef.h>\n#include <stdio.h>\n#include "nvml/nvml.h"\nint main(void) {' + "\n".join(lines) + "}"
    )
    program = tmp_path / "sizes"
    subprocess.run(["cc", f"-I{SOURCES}", "-o", program, source], check=True)
    ours = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()

    assert ours == [
        line
        for name, structure in STRUCTURES.items()
        for line in (
            f"{name} {ctypes.sizeof(structure)}",
            *(f"{name}.{field[0]} {getattr(structure, field[0]).offset}" for field in structure._fields_),
        )
    ]


@pytest.mark.parametrize("symbol", sorted(SYMBOLS - WORK_BEFORE_INIT))
def test_nothing_works_before_init(library: ctypes.CDLL, symbol: str) -> None:
    assert library[symbol](None, None, None) == UNINITIALIZED


def test_init_is_counted(library: ctypes.CDLL) -> None:
    assert [library.nvmlInit_v2(), library.nvmlInitWithFlags(1)] == [0, 0]
    assert library.nvmlShutdown() == 0
    assert library.nvmlDeviceGetCount_v2(byref(c_uint())) == 0
    assert library.nvmlShutdown() == 0
    assert library.nvmlDeviceGetCount_v2(byref(c_uint())) == UNINITIALIZED
    assert library.nvmlShutdown() == UNINITIALIZED


@pytest.mark.parametrize("garbage", [0, 1, 0x7FFF_1234_5678, 0x4750_5500_0000_0003, 0xFFFF_FFFF_FFFF_FFFF])
@pytest.mark.usefixtures("gpu")
def test_wrong_handles_are_refused(library: ctypes.CDLL, garbage: int) -> None:
    assert library.nvmlDeviceGetIndex(c_void_p(garbage), byref(c_uint())) == INVALID_ARGUMENT


@pytest.mark.parametrize("function", ["nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetSerial"])
def test_texts_need_room(library: ctypes.CDLL, gpu: c_void_p, function: str) -> None:
    whole = create_string_buffer(96)
    assert library[function](gpu, whole, 96) == 0
    length = len(whole.value)

    exact = create_string_buffer(b"x" * 96)
    assert library[function](gpu, exact, length) == INSUFFICIENT_SIZE
    assert exact.value == b"x" * 96
    assert library[function](gpu, exact, length + 1) == 0
    assert exact.value == whole.value
    assert library[function](gpu, None, 96) == INVALID_ARGUMENT


@pytest.mark.parametrize("symbol", ["nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion"])
@pytest.mark.usefixtures("gpu")
def test_versions_need_room(library: ctypes.CDLL, symbol: str) -> None:
    assert library[symbol](create_string_buffer(80), 80) == 0
    assert library[symbol](create_string_buffer(80), 4) == INSUFFICIENT_SIZE
    assert library[symbol](None, 80) == INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("function", "results"),
    [
        ("nvmlDeviceGetMinorNumber", 1),
        ("nvmlDeviceGetIndex", 1),
        ("nvmlDeviceGetBrand", 1),
        ("nvmlDeviceGetArchitecture", 1),
        ("nvmlDeviceGetCudaComputeCapability", 2),
        ("nvmlDeviceGetPciInfo_v3", 1),
        ("nvmlDeviceGetNumaNodeId", 1),
        ("nvmlDeviceGetMemoryInfo", 1),
        ("nvmlDeviceGetMemoryInfo_v2", 1),
        ("nvmlDeviceGetComputeMode", 1),
        ("nvmlDeviceGetMigMode", 2),
        ("nvmlDeviceGetPersistenceMode", 1),
        ("nvmlDeviceGetVirtualizationMode", 1),
        ("nvmlDeviceGetAddressingMode", 1),
        ("nvmlDeviceGetComputeRunningProcesses_v3", 2),
        ("nvmlDeviceGetProcessUtilization", 2),
    ],
)
def test_results_need_a_place(library: ctypes.CDLL, gpu: c_void_p, function: str, results: int) -> None:
    assert library[function](gpu, *[None] * results) == INVALID_ARGUMENT


@pytest.mark.usefixtures("gpu")
def test_lookups(library: ctypes.CDLL) -> None:
    found = c_void_p()
    by_bus, by_uuid = library.nvmlDeviceGetHandleByPciBusId_v2, library.nvmlDeviceGetHandleByUUID
    for bus_id in (b"0000:22:00.0", b"00000000:22:00.0", b"0:22:0.0"):
        assert by_bus(c_char_p(bus_id), byref(found)) == 0
    for bus_id in (b"0001:22:00.0", b"0000:22:01.0", b"0000:22:00.1", b"0000:23:00.0"):
        assert by_bus(c_char_p(bus_id), byref(found)) == NOT_FOUND
    assert by_bus(c_char_p(b"22"), byref(found)) == INVALID_ARGUMENT
    assert by_uuid(c_char_p(b"MIG-unknown"), byref(found)) == NOT_FOUND
    assert by_uuid(None, byref(found)) == INVALID_ARGUMENT
    assert library.nvmlDeviceGetHandleByIndex_v2(3, byref(found)) == INVALID_ARGUMENT


def test_structures_carry_their_version(library: ctypes.CDLL, gpu: c_void_p) -> None:
    memory, mode = nvml.c_nvmlMemory_v2_t(), nvml.c_nvmlDeviceAddressingMode_t()
    memory.version = nvml.nvmlMemory_v2
    assert library.nvmlDeviceGetMemoryInfo_v2(gpu, byref(memory)) == 0
    assert library.nvmlDeviceGetAddressingMode(gpu, byref(mode)) == 0
    memory.version = mode.version = 0
    assert library.nvmlDeviceGetMemoryInfo_v2(gpu, byref(memory)) == VERSION_MISMATCH
    assert library.nvmlDeviceGetAddressingMode(gpu, byref(mode)) == VERSION_MISMATCH


def test_process_lists_need_room(node: sim.SimNode, library: ctypes.CDLL, gpu: c_void_p) -> None:
    processes = library.nvmlDeviceGetComputeRunningProcesses_v3
    for pid in (7, 8, 9):
        node.start_process(node.gpus()[0].uuid, pid, 4096)

    none, few, enough, many = c_uint(0), c_uint(2), c_uint(3), c_uint(64)
    infos = (nvml.c_nvmlProcessInfo_v3_t * 64)()
    assert processes(gpu, byref(none), None) == INSUFFICIENT_SIZE
    assert processes(gpu, byref(few), infos) == INSUFFICIENT_SIZE
    assert [none.value, few.value] == [3, 3]
    assert processes(gpu, byref(enough), infos) == 0
    assert processes(gpu, byref(many), infos) == 0
    assert many.value == 3
    assert [info.pid for info in infos[:4]] == [7, 8, 9, 0]
    assert processes(gpu, byref(c_uint(5)), None) == INVALID_ARGUMENT


def test_error_strings(library: ctypes.CDLL) -> None:
    library.nvmlErrorString.restype = c_char_p
    texts: dict[int, Any] = {code: library.nvmlErrorString(c_int(code)) for code in (*range(31), 999, 12345)}
    assert texts[0] == b"Success"
    assert texts[3] == b"Not Supported"
    assert texts[4] == b"Insufficient Permissions"
    assert texts[23] == b"Insufficient Resources"
    assert texts[999] == texts[12345] == b"Unknown Error"
    assert len(set(texts.values())) == 32
