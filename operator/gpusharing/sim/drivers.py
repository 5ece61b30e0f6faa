"""The driver versions that a simulated node can have, and what each of them does not have yet."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpusharing.sim.errors import SimError

DEFAULT = "580.173.02"

# Functions that came later than the oldest driver here, with the branch that brought them.
# From the functions of nvidia-ml-py's releases, which have the drivers' numbers, and NVIDIA's headers between them.
ADDED = {
    "nvmlDeviceGetGpuFabricInfoV": 550,
    "nvmlDeviceGetNumaNodeId": 550,
    "nvmlDeviceGetAddressingMode": 580,
    "nvmlDeviceGetGpuInstanceProfileInfoByIdV": 580,
    "nvmlDeviceGetMemoryLimits_v1": 615,
    "nvmlDeviceSetMemoryLimits_v1": 615,
}


@dataclass(frozen=True)
class Driver:
    version: str
    branch: int
    cuda_version: int

    @property
    def nvml_version(self) -> str:
        return f"{self.cuda_version // 1000}.{self.version}"

    @property
    def absent_functions(self) -> frozenset[str]:
        return frozenset(function for function, branch in ADDED.items() if self.branch < branch)

    @property
    def gpu_profile_count(self) -> int:
        """NVML_GPU_INSTANCE_PROFILE_COUNT"""
        if self.branch < 570:
            return 0xA
        return 0x11 if self.branch < 610 else 0x12

    @property
    def compute_profile_count(self) -> int:
        """NVML_COMPUTE_INSTANCE_PROFILE_COUNT"""
        return 0x8 if self.branch < 610 else 0x9

    @property
    def profile_info_version(self) -> int:
        return 2 if self.branch < 550 else 3

    @property
    def fabric_info_version(self) -> int:
        return 2 if self.branch < 580 else 3

    @property
    def profiles_without_mig(self) -> bool:
        return self.branch >= 550

    @property
    def compute_mode_of_mig_devices(self) -> bool:
        return self.branch >= 610

    @property
    def recovery_events(self) -> bool:
        """Whether it tells of GPUs that are unavailable and of what would recover them."""
        return self.branch >= 570

    @property
    def mps_max_clients(self) -> int:
        return 48 if self.cuda_version < 13010 else 60


# One of each branch, the newest last.
KNOWN = (
    Driver("535.261.03", 535, 12020),
    Driver("550.163.01", 550, 12040),
    Driver("570.195.03", 570, 12080),
    Driver("575.64.05", 575, 12090),
    Driver(DEFAULT, 580, 13000),
    Driver("590.48.01", 590, 13010),
    Driver("595.45.04", 595, 13020),
    Driver("610.43.02", 610, 13030),
    Driver("615.71.09", 615, 13040),
)


def find_driver(text: str) -> Driver:
    """`550` or a whole version of that branch, like `550.54.15`."""
    branch, dot, _ = text.partition(".")
    known = next((driver for driver in KNOWN if str(driver.branch) == branch), None)
    if known is None:
        raise SimError(f"unknown driver {text!r}: known are versions of {', '.join(str(d.branch) for d in KNOWN)}")
    return replace(known, version=text) if dot else known
