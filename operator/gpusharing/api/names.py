"""Every name that crosses a process border, spelled once."""

import re
from enum import StrEnum
from typing import Final

GROUP: Final = "gpusharing.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

DEFAULT_DRIVER: Final = "gpu.nvidia.com"

# A policy's name becomes part of the names of its classes, which are names of extended resources too: 63 characters,
# less "-timeslicing".
MAX_POLICY_NAME: Final = 51

# Attributes and taints of our own on published devices.
SHARING_ATTRIBUTE: Final = f"{GROUP}/sharing"
POLICY_ATTRIBUTE: Final = f"{GROUP}/policy"
UNCONFIGURED_TAINT: Final = f"{GROUP}/unconfigured"


class Sharing(StrEnum):
    """The ways in which a GPU can be handed out; the value of the attribute gpusharing.dev/sharing."""

    EXCLUSIVE = "Exclusive"
    TIME_SLICING = "TimeSlicing"


_DEVICE_NAME: Final = re.compile(r"gpu-(?P<slot>0|[1-9][0-9]*)(?P<timeslicing>-timeslicing)?")


def whole_device(slot: int) -> str:
    return f"gpu-{slot}"


def time_sliced_device(slot: int) -> str:
    return f"gpu-{slot}-timeslicing"


def slot_of_device(device: str) -> int | None:
    """The slot of the GPU that a device name of ours speaks of; None for a name that we never gave."""
    match = _DEVICE_NAME.fullmatch(device)
    return int(match["slot"]) if match else None


def sharing_of_device(device: str) -> Sharing | None:
    """How a device of ours is shared; None for a name that we never gave."""
    match = _DEVICE_NAME.fullmatch(device)
    if match is None:
        return None
    return Sharing.TIME_SLICING if match["timeslicing"] else Sharing.EXCLUSIVE
