"""What a GPU is to the decisions: facts, whoever found them out."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A GPU as driver and kernel describe it."""

    uuid: str
    minor: int
    """The N of /dev/nvidiaN; may change."""
    product_name: str
    brand: str
    architecture: str
    memory_mib: int
    compute_capability: tuple[int, int]
    driver_version: str
    cuda_driver_version: tuple[int, int]
    pci_bus_id: str
    pcie_root: str | None = None
    numa_node: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu(Board):
    """One that has its place on the node."""

    slot: int
    """The N of gpu-N; bound to the uuid for good."""
