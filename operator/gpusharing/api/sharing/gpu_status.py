"""What an agent reports of one GPU."""

from functools import lru_cache
from sys import intern
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypedDict

from gpusharing.api.base import ApiModel, Numerous
from gpusharing.api.meta import Conditions
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.offers import Interval
from gpusharing.api.text import Message, Name

# Both are calculated with; one that could not be would stop the decisions for all.
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?Z$"
_MEMORY_OF_A_GPU = "^[1-9][0-9]*(Mi|Gi|Ti)$"


class PublishedDevice(Numerous):
    device: Name
    """A device name in the node's ResourceSlices."""
    closing_since: Annotated[str | None, Field(max_length=32, pattern=_MOMENT)] = None
    """Since when nobody new gets it, because it is to be withdrawn."""


class DeviceAttribute(TypedDict, total=False):
    """An attribute as in a ResourceSlice: exactly one of these."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True)  # type: ignore[misc]

    string: Annotated[str, Field(max_length=64)]
    """A text."""
    version: Annotated[str, Field(max_length=64)]
    """A semantic version."""
    int: int
    """A whole number."""
    bool: bool
    """Yes or no."""


@lru_cache(4096)
def _attribute(kind: str, value: Any) -> Any:
    return {kind: value}


def _shared(attributes: dict[str, DeviceAttribute]) -> dict[str, DeviceAttribute]:
    """GPUs of a model have most attributes in common: a fleet keeps them once."""
    return {
        intern(name): _attribute(*next(iter(attribute.items()))) if len(attribute) == 1 else attribute
        for name, attribute in attributes.items()
    }


class MigInstanceStatus(Numerous):
    profile: Name
    """Its kind, as in 1g.10gb."""
    start: Annotated[int, Field(ge=0, le=63)]
    """The first of its memory slices."""
    uuid: Name | None = None
    """The MIG device that programs see. Absent: there is none, or there are several."""


class MigMode(ApiModel):
    enabled: bool
    """At the moment."""
    found: bool
    """Before the agent switched it."""


class MemoryWallSupport(Numerous):
    supported: bool
    """Whether the driver can hold each container to a part of the GPU's memory."""
    reason: Message | None = None
    """What is in the way."""


UNTOLD: Final = MemoryWallSupport(supported=False, reason="the node's agent has not said whether it can be done")


class GpuStatus(Numerous):
    uuid: Name
    """The GPU, for as long as the board lives."""
    slot: Annotated[int, Field(ge=0, le=9999)]
    """The N of gpu-N in device names; it stays with the GPU."""
    minor: Annotated[int, Field(ge=0, le=9999)]
    """The N of /dev/nvidiaN at the moment."""
    model: Name
    """The product name."""
    memory: Annotated[str, Field(max_length=16, pattern=_MEMORY_OF_A_GPU)]
    """Total memory, as a quantity."""
    mig_profiles: Annotated[tuple[Name, ...], Field(max_length=64)] = ()
    """The kinds of MIG instances that it can be cut into."""
    instances: Annotated[tuple[MigInstanceStatus, ...], Field(max_length=64)] = ()
    """The MIG instances that it is cut into."""
    mig_mode: MigMode | None = None
    """Whether it can be cut at the moment. Absent: it never can."""
    attributes: Annotated[
        dict[str, DeviceAttribute], AfterValidator(_shared), Field(default_factory=dict, max_length=64)
    ]
    """What selectors see, as on the devices in ResourceSlices."""
    policy: PolicyReference | None = None
    """The policy whose offers are in force. Absent: the GPU is offered as it is found."""
    time_slice: Interval | None = None
    """The time slice that is set. Absent: the GPU has no such setting."""
    compute_mode: Literal["Default", "ExclusiveThread", "Prohibited", "ExclusiveProcess"] | None = None
    """The compute mode that is set."""
    memory_wall: MemoryWallSupport = UNTOLD
    """Whether claims of one GPU can be kept to their own memory."""
    published: Annotated[tuple[PublishedDevice, ...], Field(max_length=256)] = ()
    """The devices that the scheduler is offered."""
    conditions: Conditions = ()
    """What is wrong with this GPU, if anything is."""
