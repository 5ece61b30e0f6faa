"""What a GPU reports by itself."""

from dataclasses import dataclass
from enum import StrEnum

from gpusharing.api.names import MigPlace


class EventKind(StrEnum):
    XID = "Xid"
    """An error that the driver has a number for."""
    DOUBLE_BIT_ERROR = "DoubleBitError"
    """Memory that could not be corrected."""
    MIG_CHANGED = "MigChanged"
    """MIG mode or instances, whoever did it."""
    UNAVAILABLE = "Unavailable"
    RECOVERY_NEEDED = "RecoveryNeeded"
    """Whether the driver wants a reset or more has changed; see the ailments."""
    LOST = "Lost"
    UNMONITORED = "Unmonitored"
    """Nothing will be heard of this GPU, because it cannot report, or does not let itself be watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuEvent:
    kind: EventKind
    uuid: str | None
    """None where it cannot be told which: then it concerns all."""
    xid: int | None = None
    gpu_instance: int | None = None
    compute_instance: int | None = None
    place: MigPlace | None = None
    """Of the MIG instance. None: it is about the whole GPU, or the instance does not exist any more."""
    needs_recovery: bool | None = None
    """Whether the driver says that the GPU has to be recovered (R565 and newer). None: it does not say."""
    driver_load: int | None = None
    """When the driver that reported it was loaded: a number for each time. None: nobody can tell."""
