"""The GPU models that a simulated node can have: the only place that knows them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from gpusharing.sim.errors import SimError


class Architecture(IntEnum):
    """NVML's numbers."""

    AMPERE = 7
    ADA = 8
    HOPPER = 9


@dataclass(frozen=True)
class Model:
    name: str
    product_name: str
    architecture: Architecture
    compute_capability: tuple[int, int]
    memory_mib: int
    # What the driver keeps for itself; drivers differ by some MiB, but it is never nothing.
    reserved_mib: int
    pci_device_id: int
    pci_subsystem_id: int
    mig_capable: bool


MODELS = {
    model.name: model
    for model in (
        Model(
            name="H100-80GB",
            product_name="NVIDIA H100 80GB HBM3",
            architecture=Architecture.HOPPER,
            compute_capability=(9, 0),
            memory_mib=81559,
            reserved_mib=551,
            pci_device_id=0x2330,
            pci_subsystem_id=0x16C1,
            mig_capable=True,
        ),
        Model(
            name="A100-40GB",
            product_name="NVIDIA A100-SXM4-40GB",
            architecture=Architecture.AMPERE,
            compute_capability=(8, 0),
            memory_mib=40960,
            reserved_mib=571,
            pci_device_id=0x20B0,
            pci_subsystem_id=0x134F,
            mig_capable=True,
        ),
        Model(
            name="A30",
            product_name="NVIDIA A30",
            architecture=Architecture.AMPERE,
            compute_capability=(8, 0),
            memory_mib=24576,
            reserved_mib=490,
            pci_device_id=0x20B7,
            pci_subsystem_id=0x1532,
            mig_capable=True,
        ),
        Model(
            name="L4",
            product_name="NVIDIA L4",
            architecture=Architecture.ADA,
            compute_capability=(8, 9),
            memory_mib=23034,
            reserved_mib=486,
            pci_device_id=0x27B8,
            pci_subsystem_id=0x16CA,
            mig_capable=False,
        ),
    )
}


def parse_gpus(text: str) -> list[Model]:
    """`H100-80GB:2,L4` as the models of the GPUs, in this order."""
    return [model for part in text.split(",") for model in _parse_part(part.strip())]


def _parse_part(part: str) -> list[Model]:
    name, colon, count = part.partition(":")
    if name not in MODELS:
        raise SimError(f"unknown GPU model {name!r}: known are {', '.join(MODELS)}")
    if colon and not (count.isdecimal() and int(count) > 0):
        raise SimError(f"{part!r} needs a positive number of GPUs after the colon")
    return [MODELS[name]] * int(count or 1)
