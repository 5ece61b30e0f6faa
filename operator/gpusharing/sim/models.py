"""The GPU models that a simulated node can have: the only place that knows them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gpusharing.sim import mig
from gpusharing.sim.errors import SimError
from gpusharing.sim.mig import MigProfile


class Architecture(IntEnum):
    """NVML's numbers."""

    TURING = 6
    AMPERE = 7
    ADA = 8
    HOPPER = 9
    BLACKWELL = 10


@dataclass(frozen=True)
class Model:
    name: str
    product_name: str
    architecture: Architecture
    compute_capability: tuple[int, int]
    # As the board reports it.
    memory_mib: int
    multiprocessors: int
    # What the driver keeps for itself; drivers differ by some MiB, but it is never nothing.
    reserved_mib: int
    pci_device_id: int
    pci_subsystem_id: int
    # The first branch that drives it.
    driver: int
    mig_profiles: tuple[MigProfile, ...] = mig.NOT_CAPABLE

    @property
    def mig_capable(self) -> bool:
        return self.mig_profiles != mig.NOT_CAPABLE

    @property
    def max_mig_devices(self) -> int:
        return max((profile.shape.slices for profile in self.mig_profiles), default=0)

    @property
    def mig_mode_needs_reset(self) -> bool:
        return self.architecture <= Architecture.AMPERE

    @property
    def mig_mode_persists(self) -> bool:
        """Ampere keeps it in the board's InfoROM."""
        return self.architecture <= Architecture.AMPERE

    @property
    def row_remapping(self) -> bool:
        return self.architecture >= Architecture.AMPERE

    @property
    def fabric(self) -> bool:
        return self.architecture >= Architecture.HOPPER


MOST_GPUS = 32
"""Of a node."""

MODELS = {
    model.name: model
    for model in (
        Model(
            name="A30",
            product_name="NVIDIA A30",
            architecture=Architecture.AMPERE,
            compute_capability=(8, 0),
            memory_mib=24576,
            multiprocessors=56,
            reserved_mib=490,
            pci_device_id=0x20B7,
            pci_subsystem_id=0x1532,
            driver=535,
            mig_profiles=mig.A30,
        ),
        Model(
            name="A100-40GB",
            product_name="NVIDIA A100-SXM4-40GB",
            architecture=Architecture.AMPERE,
            compute_capability=(8, 0),
            memory_mib=40960,
            multiprocessors=108,
            reserved_mib=571,
            pci_device_id=0x20B0,
            pci_subsystem_id=0x134F,
            driver=535,
            mig_profiles=mig.A100_40GB,
        ),
        Model(
            name="A100-80GB",
            product_name="NVIDIA A100-SXM4-80GB",
            architecture=Architecture.AMPERE,
            compute_capability=(8, 0),
            memory_mib=81920,
            multiprocessors=108,
            reserved_mib=693,
            pci_device_id=0x20B2,
            pci_subsystem_id=0x1463,
            driver=535,
            mig_profiles=mig.A100_80GB,
        ),
        Model(
            name="H100-80GB",
            product_name="NVIDIA H100 80GB HBM3",
            architecture=Architecture.HOPPER,
            compute_capability=(9, 0),
            memory_mib=81559,
            multiprocessors=132,
            reserved_mib=551,
            pci_device_id=0x2330,
            pci_subsystem_id=0x16C1,
            driver=535,
            mig_profiles=mig.H100_80GB,
        ),
        Model(
            name="H100-NVL",
            product_name="NVIDIA H100 NVL",
            architecture=Architecture.HOPPER,
            compute_capability=(9, 0),
            memory_mib=95830,
            multiprocessors=132,
            reserved_mib=582,
            pci_device_id=0x2321,
            pci_subsystem_id=0x1839,
            driver=535,
            mig_profiles=mig.H100_NVL,
        ),
        Model(
            name="H200",
            product_name="NVIDIA H200",
            architecture=Architecture.HOPPER,
            compute_capability=(9, 0),
            memory_mib=143771,
            multiprocessors=132,
            reserved_mib=613,
            pci_device_id=0x2335,
            pci_subsystem_id=0x18BE,
            driver=550,
            mig_profiles=mig.H200,
        ),
        Model(
            name="B200",
            product_name="NVIDIA B200",
            architecture=Architecture.BLACKWELL,
            compute_capability=(10, 0),
            memory_mib=183359,
            multiprocessors=148,
            reserved_mib=716,
            pci_device_id=0x2901,
            pci_subsystem_id=0x1999,
            driver=570,
            mig_profiles=mig.B200,
        ),
        Model(
            name="RTX-PRO-6000",
            product_name="NVIDIA RTX PRO 6000 Blackwell Server Edition",
            architecture=Architecture.BLACKWELL,
            compute_capability=(12, 0),
            memory_mib=97887,
            multiprocessors=188,
            reserved_mib=637,
            pci_device_id=0x2BB5,
            pci_subsystem_id=0x204E,
            driver=575,
            mig_profiles=mig.RTX_PRO_6000,
        ),
        Model(
            name="L4",
            product_name="NVIDIA L4",
            architecture=Architecture.ADA,
            compute_capability=(8, 9),
            memory_mib=23034,
            multiprocessors=58,
            reserved_mib=486,
            pci_device_id=0x27B8,
            pci_subsystem_id=0x16CA,
            driver=535,
        ),
        Model(
            name="T4",
            product_name="Tesla T4",
            architecture=Architecture.TURING,
            compute_capability=(7, 5),
            memory_mib=15360,
            multiprocessors=40,
            reserved_mib=419,
            pci_device_id=0x1EB8,
            pci_subsystem_id=0x12A2,
            driver=535,
        ),
    )
}


def parse_gpus(text: str) -> list[Model]:
    """`H100-80GB:2,L4` as the models of the GPUs, in this order. Raises SimError."""
    models: list[Model] = []
    for part in text.split(","):
        model, count = _parse_part(part.strip())
        if len(models) + count > MOST_GPUS:
            raise SimError(f"a node has at most {MOST_GPUS} GPUs")
        models += [model] * count
    return models


def _parse_part(part: str) -> tuple[Model, int]:
    name, colon, count = part.partition(":")
    if name not in MODELS:
        raise SimError(f"unknown GPU model {name!r}: known are {', '.join(MODELS)}")
    if colon and not (count.isdecimal() and int(count[:9]) > 0):
        raise SimError(f"{part!r} needs a positive number of GPUs after the colon")
    return MODELS[name], int(count[:9] or 1)
