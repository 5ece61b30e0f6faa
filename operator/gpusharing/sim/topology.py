"""Where the GPUs sit: their PCI addresses, and the sysfs tree that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusharing.sim.models import Model

_FIRST_ROOT_BUS = 0x1A
# Keeps 32 GPUs below bus 0x100.
_BUSES_PER_GPU = 7
_NVIDIA_VENDOR = 0x10DE


@dataclass(frozen=True)
class PciSlot:
    """A GPU behind a root port of its own, as in servers without PCIe switches."""

    bus: int
    numa_node: int

    @property
    def root_bus(self) -> int:
        return self.bus - 1

    @property
    def address(self) -> str:
        """As sysfs writes it."""
        return f"0000:{self.bus:02x}:00.0"

    @property
    def device_path(self) -> str:
        return f"devices/pci0000:{self.root_bus:02x}/0000:{self.root_bus:02x}:00.0/{self.address}"


def pci_slots(count: int) -> list[PciSlot]:
    """Two sockets, each with half of the GPUs."""
    return [
        PciSlot(bus=_FIRST_ROOT_BUS + index * _BUSES_PER_GPU + 1, numa_node=int(index * 2 >= count))
        for index in range(count)
    ]


def write_sysfs(sys: Path, gpus: Sequence[tuple[PciSlot, Model]]) -> None:
    links = sys / "bus/pci/devices"
    links.mkdir(parents=True)
    for slot, model in gpus:
        device = sys / slot.device_path
        device.mkdir(parents=True)
        (device / "numa_node").write_text(f"{slot.numa_node}\n")
        (device / "vendor").write_text(f"{_NVIDIA_VENDOR:#06x}\n")
        (device / "device").write_text(f"{model.pci_device_id:#06x}\n")
        (links / slot.address).symlink_to(f"../../../{slot.device_path}")
