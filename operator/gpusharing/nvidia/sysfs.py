"""What the kernel knows of a PCI device and NVML does not tell."""

import re
from pathlib import Path
from typing import Final

_NVIDIA: Final = "0x10de"
# By the PCI class code; NVIDIA has no other such device.
_BRIDGE_OF_ANOTHER_KIND: Final = "0x0680"


def normalized_bus_id(bus_id: str) -> str:
    """NVML's "00000000:3B:00.0" as the kernel writes it: "0000:3b:00.0"."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def pcie_root(sysfs: Path, bus_id: str) -> str | None:
    try:
        place = (sysfs / "bus/pci/devices" / bus_id).readlink()
    except OSError:
        return None
    return next((part for part in place.parts if re.fullmatch(r"pci[0-9a-f]{4}:[0-9a-f]{2}", part)), None)


def driver_load(sysfs: Path) -> int | None:
    """The number of the module's directory: the kernel makes a new one at each load, and gives no number twice."""
    try:
        return (sysfs / "module/nvidia").stat().st_ino
    except OSError:
        return None


def numa_node(sysfs: Path, bus_id: str) -> int | None:
    file = sysfs / "bus/pci/devices" / bus_id / "numa_node"
    try:
        node = int(file.read_text())
    except (OSError, ValueError):
        return None
    # The kernel says -1 where there is only one.
    return node if node >= 0 else None


def has_nvswitch(sysfs: Path) -> bool:
    """GPUs behind one are reset all together or not at all."""
    return any(
        _word(device / "vendor") == _NVIDIA and _word(device / "class").startswith(_BRIDGE_OF_ANOTHER_KIND)
        for device in (sysfs / "bus/pci/devices").glob("*")
    )


def _word(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
