"""The modes in which a GPU can be offered, each with its amounts."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from gpusharing.api.base import ApiModel
from gpusharing.api.sharing.amounts import Memory, in_order
from gpusharing.api.sharing.rules import rule, validated


class Interval(StrEnum):
    """How long a client runs before the next one gets the GPU. The driver chooses the milliseconds."""

    DEFAULT = "Default"
    SHORT = "Short"
    MEDIUM = "Medium"
    LONG = "Long"


class ExclusiveOffer(ApiModel):
    """Whole GPUs, each for one claim at a time."""


class Enforcement(StrEnum):
    """Whether the driver limits the GPU memory of each container."""

    REQUIRED = "Required"
    """GPUs whose driver cannot do that are not offered in this mode."""
    PREFERRED = "Preferred"
    """GPUs whose driver cannot do that are offered without a limit."""
    NONE = "None"
    """No limit; only the scheduler counts."""


class TimeSlicingMemory(ApiModel):
    model_config = ConfigDict(json_schema_extra=validated(in_order("min", "default")))

    default: Memory
    """GPU memory of a claim that does not ask for an amount: an amount in Mi, Gi or Ti ("16Gi"), or a percentage of the
    GPU's memory ("25%")."""
    min: Memory = "1Mi"
    """The least GPU memory that a claim gets, also if it asks for less: an amount ("1Gi") or a percentage of the GPU's
    memory ("5%"). Default: 1Mi."""
    enforcement: Enforcement = Enforcement.REQUIRED
    """Whether the driver limits each container to the memory of its claim. Required: GPUs whose driver cannot do that
    are not offered by time-slicing. Preferred: these GPUs are offered without a limit. None: no GPU has a limit, only
    the scheduler counts. Default: Required."""


class TimeSlicingOffer(ApiModel):
    """Several claims use one GPU in turns. Only memory can be isolated between them."""

    max_clients: Annotated[int, Field(ge=2, le=256)]
    """The number of shares of each GPU, from 2 to 256. A claim takes one share unless it asks for more, so at most this
    many claims use one GPU at the same time."""
    interval: Interval = Interval.DEFAULT
    """How long a client runs before the next one gets the GPU: Default, Short, Medium or Long. The driver chooses
    the milliseconds. Default: Default."""
    memory: TimeSlicingMemory | None = None
    """Divides the GPU's memory among its claims: the scheduler never allocates more than the GPU has, and the
    driver limits each container (see enforcement). Absent: each claim can use all of the GPU's memory."""
    transparent: bool = False
    """If true, claims that ask for a plain GPU (device class gpu.nvidia.com) get a share of one. Cannot be combined
    with offers.exclusive. Default: false."""


class MpsMemory(ApiModel):
    model_config = ConfigDict(
        json_schema_extra=validated(in_order("min", "default"), in_order("default", "max"), in_order("min", "max"))
    )

    default: Memory
    """GPU memory of a claim that does not ask for an amount: an amount in Mi, Gi or Ti ("8Gi"), or a percentage of the
    GPU's memory ("10%")."""
    min: Memory = "1Mi"
    """The least GPU memory that a claim gets, also if it asks for less: an amount ("1Gi") or a percentage of the GPU's
    memory ("5%"). Default: 1Mi."""
    max: Memory | None = None
    """The most GPU memory that a claim may ask for: an amount ("20Gi") or a percentage of the GPU's memory ("50%").
    Default: all of it."""


class MpsThreads(ApiModel):
    model_config = ConfigDict(
        json_schema_extra=validated(
            rule("self.min <= self.default", "min must be less than or equal to default", field_path=".min")
        )
    )

    default: Annotated[int, Field(ge=1, le=100)]
    """Multiprocessors of a claim that does not ask for an amount, in percent of the GPU, from 1 to 100."""
    min: Annotated[int, Field(ge=1, le=50)] = 1
    """The least multiprocessors that a claim gets, also if it asks for less, in percent of the GPU, from 1 to 50.
    Default: 1."""


class MpsOffer(ApiModel):
    """Several claims use one GPU at the same time, each with a limit of memory and of multiprocessors."""

    # What an MPS server lets in at most.
    max_clients: Annotated[int, Field(ge=2, le=60)]
    """The number of shares of each GPU, from 2 to 60. A claim takes one share unless it asks for more, so at most this
    many claims use one GPU at the same time."""
    memory: MpsMemory
    """Divides the GPU's memory among its claims."""
    threads: MpsThreads
    """Divides the GPU's multiprocessors among its claims."""


# Without backslashes, which mean something else in CEL.
_MIG_PROFILE = "^[1-9][0-9]*g[.][1-9][0-9]*gb([+-][a-z]+([.][a-z]+)?)?$"
_PROFILES_ARE_LISTED = "status.gpus[].migProfiles of the NodeSharings lists those of each GPU"
MIG_PROFILE: Final = (
    Field(
        max_length=32,
        json_schema_extra=validated(
            rule(f"self.matches('{_MIG_PROFILE}')", f'must be a MIG profile such as "1g.10gb": {_PROFILES_ARE_LISTED}')
        ),
    ),
)
"""What is asked of a text that is a MIG profile."""


class MigOffer(ApiModel):
    """MIG instances: parts of a GPU that the hardware isolates."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule("has(self.profiles) != has(self.layout)", "must set exactly one of profiles and layout"),
        )
    )

    profiles: Annotated[
        tuple[Annotated[str, *MIG_PROFILE], ...] | None,
        Field(min_length=1, max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = None
    """MIG profiles that claims can ask for, from 1 to 16 of them. The agent creates an instance when a claim needs it,
    and destroys it when the claim is released. Example: [1g.10gb, 3g.40gb]."""
    layout: Annotated[
        dict[str, Annotated[int, Field(ge=1, le=16)]] | None,
        Field(
            min_length=1,
            max_length=16,
            json_schema_extra=validated(
                rule(
                    f"self.all(profile, profile.matches('{_MIG_PROFILE}'))",
                    f'keys must be MIG profiles such as "1g.10gb": {_PROFILES_ARE_LISTED}',
                )
            ),
        ),
    ] = None
    """MIG instances that the agent creates at once and keeps: the number of instances of each profile. Cannot be
    combined with other offers. Example: {1g.10gb: 4, 3g.40gb: 1}."""


class Offers(ApiModel):
    exclusive: ExclusiveOffer | None = None
    """Offers whole GPUs: one claim at a time has the GPU for itself. Claims ask for it by device class gpu.nvidia.com
    or <policy>-exclusive. It has no settings; write {}."""
    time_slicing: TimeSlicingOffer | None = None
    """Offers GPUs by time-slicing: several claims share one GPU, and their programs run in turns. Compute is not
    isolated between them; memory is, if `memory` is set. Claims ask for a share by device class
    timeslicing.gpu.nvidia.com or <policy>-timeslicing. Example: {maxClients: 4, interval: Medium}."""
    mps: MpsOffer | None = None
    """Offers GPUs by MPS: several claims share one GPU, and their programs run at the same time. Each claim has a limit
    of memory and of multiprocessors. Claims ask for a share by device class mps.gpu.nvidia.com or <policy>-mps.
    Example: {maxClients: 4, memory: {default: 25%}, threads: {default: 25}}."""
    mig: MigOffer | None = None
    """Offers MIG instances: parts of a GPU that the hardware isolates. Set either profiles or layout. Claims ask for an
    instance by device class mig.nvidia.com or <policy>-mig. Example: {profiles: [1g.10gb, 3g.40gb]}."""
