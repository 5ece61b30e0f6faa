"""The status of one GPU, as its agent reports it."""

from functools import lru_cache
from sys import intern
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypedDict

from gpusharing.api.base import ApiModel, Numerous
from gpusharing.api.meta import Conditions
from gpusharing.api.reasons import ConditionReason
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.offers import Interval
from gpusharing.api.text import Message, Name

# Decisions calculate with both: the API server must refuse values that they cannot read.
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?Z$"
_MEMORY_OF_A_GPU = "^(0|[1-9][0-9]*)(Mi|Gi|Ti)$"

HEALTHY: Final = "Healthy"
"""The condition of a GPU that says whether it can be used."""


_RESET: Final = "Reset the GPU while nothing uses it and the agent is stopped, or reboot the node."


class Reason(ConditionReason):
    """What is wrong with a GPU, the heaviest first: its condition Healthy has one reason. With those that leave it
    healthy, the GPU can still be allocated."""

    LOST = (
        "GpuLost",
        False,
        "The GPU has fallen off the bus, or the driver does not list it any more.",
        "Read the kernel's log, and reboot the node.",
    )
    DRIVER_DOWN = (
        "DriverDown",
        False,
        "The driver hangs or is not loaded, so no GPU of the node can be used.",
        "Repair the driver of the node.",
    )
    NOT_RESPONDING = (
        "GpuNotResponding",
        False,
        "The driver lists the GPU, but its properties cannot be read.",
        "Read the kernel's log of the node.",
    )
    # Before what it entails: so the reason stays the same when the driver says what to do about it.
    FATAL_XID = (
        "FatalXid",
        False,
        "The driver has reported an XID after which the GPU has to be recovered.",
        _RESET,
        "health.md#xids",
    )
    MEMORY_ERROR = ("UncorrectedMemoryError", False, "GPU memory could not be corrected.", _RESET)
    UNAVAILABLE = ("GpuUnavailable", False, "The driver says that the GPU cannot be used.", _RESET)
    RECOVERY_NEEDED = (
        "RecoveryNeeded",
        False,
        "The driver asks for a reset, a drain or a reboot.",
        "Do what the message says.",
    )
    ROW_REMAP_FAILED = (
        "RowRemapFailed",
        False,
        "GPU memory is broken, and the GPU has no spare memory rows left.",
        "Replace the board.",
    )
    MPS_DOWN = (
        "MpsDaemonDown",
        False,
        "The MPS daemon of the GPU has exited, does not answer or does not start.",
        "Delete the pods that share the GPU: the agent restarts the daemon when no MPS server has clients.",
    )
    INSTANCE_MISSING = (
        "MigInstanceMissing",
        False,
        "Somebody destroyed a MIG instance that a claim uses.",
        "Delete the pods of that claim.",
    )
    SETTING_NOT_APPLIED = (
        "SettingNotApplied",
        True,
        (
            "A setting that a claim or the policy needs could not be applied or read. Claims that need the setting "
            "fail, and say why."
        ),
        "Do what the message says; the agent tries again.",
    )
    ROW_REMAP_PENDING = (
        "RowRemapPending",
        True,
        "GPU memory is broken, and is replaced at the next reset. The driver lets no program use it.",
        _RESET,
    )
    IMEX_RECOVERY_NEEDED = (
        "ImexRecoveryNeeded",
        True,
        "The driver asks to recover the IMEX domain of the GPU, not the GPU.",
        "Recover the domain by NVIDIA's IMEX service.",
    )
    MINOR_XID = ("MinorXid", True, "The driver has reported an XID after which the GPU works.", "", "health.md#xids")
    PROGRAM_XID = (
        "ProgramXid",
        True,
        "The driver has reported an XID that is the fault of a program. The GPU works.",
        "Check the programs that use the GPU.",
        "health.md#xids",
    )
    UNMONITORED = (
        "Unmonitored",
        True,
        "The agent cannot receive events of the GPU, so it does not see XIDs.",
        "Restart the agent; if that does not help, restart the driver.",
    )


class PublishedDevice(Numerous):
    device: Name
    """The name of a device in the ResourceSlices of the node."""
    closing_since: Annotated[str | None, Field(max_length=32, pattern=_MOMENT)] = None
    """When the device started closing: it is still published, and no new claim may take it. Absent: it is not
    closing."""


class DeviceAttribute(TypedDict, total=False):
    """A device attribute as in a ResourceSlice: exactly one of these fields."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True)  # type: ignore[misc]

    string: Annotated[str, Field(max_length=64)]
    """A string value."""
    version: Annotated[str, Field(max_length=64)]
    """A semantic version, such as 9.0.0."""
    int: int
    """An integer value."""
    bool: bool
    """A boolean value."""


@lru_cache(4096)
def _attribute(kind: str, value: Any) -> Any:
    return {kind: value}


def _shared(attributes: dict[str, DeviceAttribute]) -> dict[str, DeviceAttribute]:
    """GPUs of a model have most attributes in common: each is in memory once for all of them."""
    return {
        intern(name): _attribute(*next(iter(attribute.items()))) if len(attribute) == 1 else attribute
        for name, attribute in attributes.items()
    }


class MigInstanceStatus(Numerous):
    profile: Name
    """The MIG profile, such as 1g.10gb."""
    start: Annotated[int, Field(ge=0, le=63)]
    """The first memory slice of the instance."""
    uuid: Name | None = None
    """The UUID of the MIG device that programs see. Absent: the instance has none, or several."""


class MigMode(ApiModel):
    enabled: bool
    """True if MIG mode is on now."""
    found: bool
    """True if MIG mode was on before the agent switched it."""


class MemoryWallSupport(Numerous):
    supported: bool
    """True if the driver can limit the GPU memory of each container."""
    reason: Message | None = None
    """Why memory limits are not supported."""


NOT_REPORTED: Final = MemoryWallSupport(
    supported=False, reason="the agent of the node has not reported whether the driver supports memory limits"
)


class GpuStatus(Numerous):
    uuid: Name
    """The UUID of the GPU. It never changes."""
    slot: Annotated[int, Field(ge=0, le=9999)]
    """The number N of gpu-N in device names. It stays with the GPU."""
    minor: Annotated[int, Field(ge=0, le=9999)]
    """The number N of /dev/nvidiaN. It can change."""
    model: Name
    """The product name of the GPU."""
    memory: Annotated[str, Field(max_length=16, pattern=_MEMORY_OF_A_GPU)]
    """The GPU's total memory, in Mi, Gi or Ti. 0Mi: the driver does not report it."""
    usable_memory: Annotated[str | None, Field(max_length=16, pattern=_MEMORY_OF_A_GPU)] = None
    """The memory that programs can use: the total without what the driver reserves. Shares are parts of it. Absent: the
    total."""
    mig_profiles: Annotated[tuple[Name, ...], Field(max_length=64)] = ()
    """The MIG profiles that this GPU supports."""
    instances: Annotated[tuple[MigInstanceStatus, ...], Field(max_length=64)] = ()
    """The MIG instances of this GPU."""
    mig_mode: MigMode | None = None
    """The MIG mode of this GPU. Absent: it does not support MIG."""
    attributes: Annotated[
        dict[str, DeviceAttribute], AfterValidator(_shared), Field(default_factory=dict, max_length=64)
    ]
    """The attributes that the selectors of policies see."""
    policy: PolicyReference | None = None
    """The policy whose offers are in force on this GPU. Absent: no policy; the GPU is offered as it was found."""
    time_slice: Interval | None = None
    """The time slice of this GPU. Absent: it cannot be read, or the GPU has no such setting."""
    compute_mode: Literal["Default", "ExclusiveThread", "Prohibited", "ExclusiveProcess"] | None = None
    """The compute mode of this GPU."""
    memory_wall: MemoryWallSupport = NOT_REPORTED
    """Whether the driver can limit the memory of each container on this GPU."""
    pool: Annotated[str | None, Field(max_length=317)] = None
    """The pool in which the devices of this GPU are published. Absent: an older agent does not report it."""
    published: Annotated[tuple[PublishedDevice, ...], Field(max_length=256)] = ()
    """The devices of this GPU in the ResourceSlices of the node."""
    conditions: Conditions = ()
    """Conditions of this GPU, such as Healthy."""
