"""What a node's driver version decides."""

from __future__ import annotations

import ctypes
import subprocess
from ctypes import byref, c_uint
from pathlib import Path

import pynvml as nvml
import pytest

from gpusharing import sim
from gpusharing.sim import drivers
from sim import calls
from sim.conftest import RunProgram, UseNvml

NOT_SUPPORTED, INVALID_ARGUMENT, VERSION_MISMATCH, LIBRARY_MISMATCH = 3, 2, 25, 18

BRANCHES = [str(driver.branch) for driver in drivers.KNOWN]


class ProfileInfoV3(ctypes.Structure):
    """nvidia-ml-py has it not."""

    _fields_ = [
        ("version", ctypes.c_uint),
        ("numbers", ctypes.c_uint * 9),
        ("memory", ctypes.c_ulonglong),
        ("name", ctypes.c_char * 96),
        ("capabilities", ctypes.c_uint),
    ]


class ComputeProfileInfoV3(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint),
        ("numbers", ctypes.c_uint * 9),
        ("name", ctypes.c_char * 96),
        ("capabilities", ctypes.c_uint),
    ]


def version(structure: type[ctypes.Structure], number: int) -> int:
    return ctypes.sizeof(structure) | number << 24


@pytest.mark.parametrize("branch", BRANCHES)
def test_versions(branch: str, tmp_path: Path, use_nvml: UseNvml) -> None:
    node = sim.create(tmp_path / "node", "L4", driver=branch)
    use_nvml(node)
    driver = nvml.nvmlSystemGetDriverVersion()
    assert driver.startswith(f"{branch}.")
    cuda = nvml.nvmlSystemGetCudaDriverVersion()
    assert nvml.nvmlSystemGetNVMLVersion() == f"{cuda // 1000}.{driver}"
    assert node.driver_version == driver
    assert (node.proc / "driver/nvidia/version").read_text().split()[7] == driver


def test_whole_version(tmp_path: Path) -> None:
    assert sim.create(tmp_path / "node", "L4", driver="550.54.15").driver_version == "550.54.15"


@pytest.mark.parametrize("driver", ["", "470", "999.1", "new", "580x", "5 80"])
def test_unknown_driver(driver: str, tmp_path: Path) -> None:
    with pytest.raises(sim.SimError, match=r"unknown driver .* 535, 550, 570"):
        sim.create(tmp_path / "node", "L4", driver=driver)
    assert not (tmp_path / "node").exists()


@pytest.mark.parametrize(("model", "driver"), [("H200", "535"), ("B200", "550"), ("RTX-PRO-6000", "570")])
def test_driver_that_does_not_know_the_board(model: str, driver: str, tmp_path: Path) -> None:
    with pytest.raises(sim.SimError, match=f"does not know the {model}"):
        sim.create(tmp_path / "node", model, driver=driver)


@pytest.mark.parametrize(
    ("branch", "absent"),
    [
        (
            "535",
            {
                "nvmlDeviceGetGpuFabricInfoV",
                "nvmlDeviceGetNumaNodeId",
                "nvmlDeviceGetAddressingMode",
                "nvmlDeviceGetGpuInstanceProfileInfoByIdV",
                "nvmlDeviceGetMemoryLimits_v1",
                "nvmlDeviceSetMemoryLimits_v1",
            },
        ),
        (
            "575",
            {
                "nvmlDeviceGetAddressingMode",
                "nvmlDeviceGetGpuInstanceProfileInfoByIdV",
                "nvmlDeviceGetMemoryLimits_v1",
                "nvmlDeviceSetMemoryLimits_v1",
            },
        ),
        ("610", {"nvmlDeviceGetMemoryLimits_v1", "nvmlDeviceSetMemoryLimits_v1"}),
        ("615", set()),
    ],
)
def test_functions_that_a_driver_does_not_have(branch: str, absent: set[str], tmp_path: Path) -> None:
    old, new = (sim.create(tmp_path / name, "L4", driver=name) for name in (branch, "615.1"))
    assert _symbols(new) - _symbols(old) == absent
    assert _symbols(old) < _symbols(new) or not absent


def _symbols(node: sim.SimNode) -> set[str]:
    command = ["nm", "-D", "--defined-only", "--format=just-symbols", str(node.library)]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_absent_function_through_nvidia_ml_py(tmp_path: Path, use_nvml: UseNvml) -> None:
    use_nvml(sim.create(tmp_path / "node", "H100-80GB", driver="535"))
    with pytest.raises(nvml.NVMLError_FunctionNotFound):
        nvml.nvmlDeviceGetNumaNodeId(calls.gpu())


@pytest.mark.parametrize(
    ("branch", "gpu_profiles", "compute_profiles"),
    [("535", 0xA, 0x8), ("550", 0xA, 0x8), ("580", 0x11, 0x8), ("610", 0x12, 0x9), ("615", 0x12, 0x9)],
)
def test_where_profiles_end(
    branch: str, gpu_profiles: int, compute_profiles: int, tmp_path: Path, use_nvml: UseNvml
) -> None:
    use_nvml(sim.create(tmp_path / "node", "A100-40GB", driver=branch))
    gpu = calls.enable_mig()
    asked = nvml.nvmlDeviceGetGpuInstanceProfileInfo
    assert [calls.error_of(asked, gpu, number) for number in (gpu_profiles - 1, gpu_profiles, 1000)] == [
        NOT_SUPPORTED if gpu_profiles > 0xA else 0,
        INVALID_ARGUMENT,
        INVALID_ARGUMENT,
    ]
    instance = calls.place(gpu, "7g.40gb", 0)
    asked = nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo
    assert [
        calls.error_of(asked, instance, number, 0) for number in (4, 5, compute_profiles - 1, compute_profiles)
    ] == [
        0,
        NOT_SUPPORTED,
        NOT_SUPPORTED,
        INVALID_ARGUMENT,
    ]
    assert calls.error_of(asked, instance, 4, 1) == INVALID_ARGUMENT


@pytest.mark.parametrize(("branch", "code"), [("535", NOT_SUPPORTED), ("550", 0), ("580", 0)])
def test_profiles_while_mig_is_off(branch: str, code: int, tmp_path: Path, use_nvml: UseNvml) -> None:
    use_nvml(sim.create(tmp_path / "node", "H100-80GB", driver=branch))
    gpu = calls.gpu()
    asked = nvml.nvmlDeviceGetGpuInstanceProfileInfo
    assert calls.error_of(asked, gpu, 0) == code
    assert calls.error_of(nvml.nvmlDeviceGetGpuInstancePossiblePlacements, gpu, 19, None, byref(c_uint())) == code
    calls.enable_mig()
    assert calls.error_of(asked, gpu, 0) == 0


@pytest.mark.parametrize(("branch", "code"), [("535", VERSION_MISMATCH), ("550", 0), ("615", 0)])
def test_third_version_of_profile_info(branch: str, code: int, tmp_path: Path, use_nvml: UseNvml) -> None:
    use_nvml(sim.create(tmp_path / "node", "A100-80GB", driver=branch))
    gpu = calls.enable_mig()
    library = nvml.nvmlLib
    info = ProfileInfoV3(version=version(ProfileInfoV3, 3))
    assert library.nvmlDeviceGetGpuInstanceProfileInfoV(gpu, 2, byref(info)) == code
    compute = ComputeProfileInfoV3(version=version(ComputeProfileInfoV3, 3))
    instance = calls.place(gpu, "3g.40gb", 4)
    asked = library.nvmlGpuInstanceGetComputeInstanceProfileInfoV
    assert asked(instance, 0, 0, byref(compute)) == code
    if code == 0:
        assert (info.name, info.numbers[0], info.memory) == (b"3g.40gb", 9, 40192)
        assert (compute.name, compute.numbers[3]) == (b"1c.3g.40gb", 14)
    for wrong in (0, version(ProfileInfoV3, 1), version(ProfileInfoV3, 4)):
        info.version = compute.version = wrong
        assert library.nvmlDeviceGetGpuInstanceProfileInfoV(gpu, 2, byref(info)) == VERSION_MISMATCH
        assert asked(instance, 0, 0, byref(compute)) == VERSION_MISMATCH


def test_graphics_are_a_capability(tmp_path: Path, use_nvml: UseNvml) -> None:
    use_nvml(sim.create(tmp_path / "node", "RTX-PRO-6000"))
    gpu = calls.gpu()
    info = ProfileInfoV3(version=version(ProfileInfoV3, 3))
    capabilities = {}
    for profile in calls.profiles(gpu):
        assert nvml.nvmlLib.nvmlDeviceGetGpuInstanceProfileInfoByIdV(gpu, profile.id, byref(info)) == 0
        capabilities[info.name.decode()] = info.capabilities
    assert {name for name, bits in capabilities.items() if bits == 2} == {"1g.24gb+gfx", "2g.48gb+gfx", "4g.96gb+gfx"}
    assert set(capabilities.values()) == {0, 2}
    assert nvml.nvmlLib.nvmlDeviceGetGpuInstanceProfileInfoByIdV(gpu, 19, byref(info)) == NOT_SUPPORTED


@pytest.mark.parametrize(
    ("branch", "on_gpu", "on_mig_device"),
    [("580", NOT_SUPPORTED, INVALID_ARGUMENT), ("610", INVALID_ARGUMENT, 0)],
)
def test_compute_mode_with_mig(branch: str, on_gpu: int, on_mig_device: int, tmp_path: Path, use_nvml: UseNvml) -> None:
    use_nvml(sim.create(tmp_path / "node", "H100-80GB", driver=branch))
    gpu = calls.gpu()
    assert calls.error_of(nvml.nvmlDeviceSetComputeMode, gpu, 3) == 0
    calls.enable_mig()
    device = calls.mig_device(gpu, "1g.10gb", 0)
    for call, arguments in ((nvml.nvmlDeviceGetComputeMode, ()), (nvml.nvmlDeviceSetComputeMode, (3,))):
        assert calls.error_of(call, gpu, *arguments) == on_gpu
        assert calls.error_of(call, device, *arguments) == on_mig_device
    if on_mig_device == 0:
        other = calls.mig_device(gpu, "1g.10gb", 1)
        assert [nvml.nvmlDeviceGetComputeMode(each) for each in (device, other)] == [3, 0]


@pytest.mark.parametrize(("branch", "third"), [("550", VERSION_MISMATCH), ("580", 0)])
def test_fabric(branch: str, third: int, tmp_path: Path, use_nvml: UseNvml) -> None:
    use_nvml(sim.create(tmp_path / "node", "H100-80GB,A100-80GB", driver=branch))
    hopper, ampere = calls.gpu(0), calls.gpu(1)
    first, second, newest = (
        nvml.c_nvmlGpuFabricInfo_t(),
        nvml.c_nvmlGpuFabricInfo_v2_t(),
        nvml.c_nvmlGpuFabricInfo_v3_t(),
    )
    first.state = second.state = newest.state = 7
    assert calls.error_of(nvml.nvmlDeviceGetGpuFabricInfo, hopper, byref(first)) == 0
    assert calls.error_of(nvml.nvmlDeviceGetGpuFabricInfoV, hopper, byref(second)) == 0
    assert calls.error_of(nvml.nvmlDeviceGetGpuFabricInfoV, hopper, byref(newest)) == third
    assert (first.state, second.state, newest.state) == (0, 0, 0 if third == 0 else 7)
    assert second.version == nvml.nvmlGpuFabricInfo_v2
    assert calls.error_of(nvml.nvmlDeviceGetGpuFabricInfo, ampere, byref(first)) == NOT_SUPPORTED
    assert calls.error_of(nvml.nvmlDeviceGetGpuFabricInfoV, ampere, byref(second)) == NOT_SUPPORTED
    second.version = 0
    assert calls.error_of(nvml.nvmlDeviceGetGpuFabricInfoV, hopper, byref(second)) == VERSION_MISMATCH


@pytest.mark.parametrize(("branch", "events"), [("535", 0x10B), ("570", 0xC10B)])
def test_supported_events(branch: str, events: int, tmp_path: Path, use_nvml: UseNvml) -> None:
    use_nvml(sim.create(tmp_path / "node", "A30,L4", driver=branch))
    assert nvml.nvmlDeviceGetSupportedEventTypes(calls.gpu(0)) == events
    assert nvml.nvmlDeviceGetSupportedEventTypes(calls.gpu(1)) == events & ~0x100


@pytest.mark.parametrize(
    ("branch", "gpu", "expected"),
    [
        ("535", "H100-80GB", [(0, 1), (NOT_SUPPORTED, None), (NOT_SUPPORTED, None)]),
        ("580", "H100-80GB", [(0, 1), (0, 1), (NOT_SUPPORTED, None)]),
        ("580", "A100-40GB", [(0, 0), (0, 1), (NOT_SUPPORTED, None)]),
        ("580", "L4", [(NOT_SUPPORTED, None)] * 3),
    ],
)
def test_fields(
    branch: str, gpu: str, expected: list[tuple[int, int | None]], tmp_path: Path, use_nvml: UseNvml
) -> None:
    use_nvml(sim.create(tmp_path / "node", gpu, driver=branch))
    values = nvml.nvmlDeviceGetFieldValues(calls.gpu(), [184, 199, 1])
    assert [(each.nvmlReturn, each.value.uiVal if each.nvmlReturn == 0 else None) for each in values] == expected


def test_new_driver_beside_a_running_process(tmp_path: Path, use_nvml: UseNvml, run_program: RunProgram) -> None:
    """The library that a process has loaded cannot talk to another kernel module; a new process has the new one."""
    node = sim.create(tmp_path / "node", "H100-80GB:2,L4", driver="550")
    use_nvml(node)
    gpu = calls.gpu()
    node.reload_driver("615")
    assert calls.error_of(nvml.nvmlDeviceGetName, gpu) == LIBRARY_MISMATCH
    assert calls.error_of(nvml.nvmlInit) == LIBRARY_MISMATCH
    assert calls.error_of(nvml.nvmlSystemGetDriverVersion) == LIBRARY_MISMATCH
    assert run_program("inventory.py", env=node.environment())["driver"].startswith("615.")
    assert {file.name for file in node.library.parent.iterdir()} == {
        f"{library}{suffix}"
        for library in ("libnvidia-ml.so", "libcuda.so")
        for suffix in ("", ".1", f".{node.driver_version}")
    }
