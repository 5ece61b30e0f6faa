"""What selectors see of a device: NVIDIA's attributes, and ours."""

import re
from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.core.devices.gpu import Board, MigProfile
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.publishing.entries import Entry, Standing

Attributes = dict[str, Any]

# Limit of resource.k8s.io/v1.
_MAX_STRING: Final = 64


def undivided(offered: OfferedGpu, sharing: Sharing, entry: Entry) -> Attributes:
    attributes = {"type": _string(_type(offered, sharing)), **board_attributes(offered.gpu)}
    if sharing is Sharing.TIME_SLICING and offered.offers.time_slicing and offered.offers.time_slicing.memory:
        attributes[names.MEMORY_WALL_ATTRIBUTE] = {"bool": offered.wants_walls and offered.memory_wall.supported}
    return attributes | _of_ours(offered, sharing, entry)


def mig(offered: OfferedGpu, profile: MigProfile, uuid: str | None, entry: Entry) -> Attributes:
    """`uuid` is that of an instance that is there already."""
    board = board_attributes(offered.gpu)
    parent = board.pop("uuid")
    attributes = {
        "type": _string(_type(offered, Sharing.MIG)),
        **({"uuid": _string(uuid)} if uuid else {}),
        "parentUUID": parent,
        "profile": _string(profile.name),
        **board,
    }
    return attributes | _of_ours(offered, Sharing.MIG, entry)


def board_attributes(gpu: Board) -> Attributes:
    """What is the same on every device of a GPU, however it is offered."""
    attributes: Attributes = {
        "uuid": _string(gpu.uuid),
        "productName": _string(gpu.product_name),
        "brand": _string(gpu.brand),
        "architecture": _string(gpu.architecture),
        "cudaComputeCapability": {"version": "{}.{}.0".format(*gpu.compute_capability)},
        "driverVersion": {"version": semantic_version(gpu.driver_version)},
        "cudaDriverVersion": {"version": "{}.{}.0".format(*gpu.cuda_driver_version)},
        "resource.kubernetes.io/pciBusID": _string(gpu.pci_bus_id),
    }
    if gpu.addressing_mode is not None:
        attributes["addressingMode"] = _string(gpu.addressing_mode)
    if gpu.pcie_root is not None:
        attributes["resource.kubernetes.io/pcieRoot"] = _string(gpu.pcie_root)
    if gpu.numa_node is not None:
        attributes["resource.kubernetes.io/numaNode"] = {"int": gpu.numa_node}
    return attributes


def semantic_version(version: str) -> str:
    """A driver's "580.173.02" as the API wants it: three numbers without leading zeros."""
    numbers = [str(int(number)) for number in re.findall(r"[0-9]+", version)[:3]]
    return ".".join(([*numbers, "0", "0", "0"])[:3])


def _type(offered: OfferedGpu, sharing: Sharing) -> str:
    if sharing is Sharing.MIG:
        return "mig"
    offer = offered.offers.time_slicing
    is_transparent = sharing is Sharing.TIME_SLICING and offer is not None and offer.transparent
    if sharing is not Sharing.EXCLUSIVE and not is_transparent:
        return "shared"
    # Foreign classes that ask for type "gpu" know nothing of tenants.
    return "restricted" if offered.restricted else "gpu"


def _of_ours(offered: OfferedGpu, sharing: Sharing, entry: Entry) -> Attributes:
    attributes: Attributes = {names.SHARING_ATTRIBUTE: _string(sharing)}
    if entry.policy is not None:
        attributes[names.POLICY_ATTRIBUTE] = _string(entry.policy)
    if offered.restricted:
        attributes[names.RESTRICTED_ATTRIBUTE] = {"bool": True}
    if entry.standing is not Standing.OPEN:
        # A taint can be tolerated; our classes exclude what has this attribute.
        attributes[names.CLOSING] = {"bool": True}
    if entry.standing is Standing.DRAINING:
        attributes[names.DRAINING] = {"bool": True}
    return attributes


def _string(value: str) -> dict[str, str]:
    return {"string": value.encode()[:_MAX_STRING].decode(errors="ignore")}
