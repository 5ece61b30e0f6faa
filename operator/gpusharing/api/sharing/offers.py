"""The ways in which a GPU can be offered, each with its amounts."""

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from gpusharing.api.base import ApiModel
from gpusharing.api.sharing.amounts import Memory, in_order
from gpusharing.api.sharing.rules import rule, validated


class Interval(StrEnum):
    """How long a client may run before the next one gets the GPU. The driver chooses the milliseconds."""

    DEFAULT = "Default"
    SHORT = "Short"
    MEDIUM = "Medium"
    LONG = "Long"


class ExclusiveOffer(ApiModel):
    """A whole GPU for one claim at a time."""


class Enforcement(StrEnum):
    """Whether a container is held to its share of the GPU's memory by the driver."""

    REQUIRED = "Required"
    """GPUs whose driver cannot do that are not offered in this way."""
    PREFERRED = "Preferred"
    """Where the driver can."""
    NONE = "None"
    """The scheduler counts, and nobody is stopped."""


class TimeSlicingMemory(ApiModel):
    model_config = ConfigDict(json_schema_extra=validated(in_order("min", "default")))

    default: Memory
    """What a claim gets that does not ask for an amount: an amount ("16Gi") or a part of the GPU ("25%")."""
    min: Memory = "1Mi"
    """The least that a claim gets."""
    enforcement: Enforcement = Enforcement.REQUIRED
    """Whether the driver holds containers to what they got: Required, Preferred (where it can) or None."""


class TimeSlicingOffer(ApiModel):
    """One GPU for several claims in turns. There is no isolation between them, except of memory where that is asked."""

    max_clients: Annotated[int, Field(ge=2, le=256)]
    """How many claims may hold the GPU at the same time."""
    interval: Interval = Interval.DEFAULT
    """How long a client may run before the next one gets the GPU: Default, Short, Medium or Long."""
    memory: TimeSlicingMemory | None = None
    """How the GPU's memory is divided among its claims. Absent: it is not, each may take all of it."""
    transparent: bool = False
    """Whether workloads that ask for a plain GPU (device class gpu.nvidia.com) get a share."""


class MpsMemory(ApiModel):
    model_config = ConfigDict(
        json_schema_extra=validated(in_order("min", "default"), in_order("default", "max"), in_order("min", "max"))
    )

    default: Memory
    """What a claim gets that does not ask for an amount: an amount ("8Gi") or a part of the GPU ("10%")."""
    min: Memory = "1Mi"
    """The least that a claim gets."""
    max: Memory | None = None
    """The most that a claim may ask for. Absent: all of the GPU's."""


class MpsThreads(ApiModel):
    model_config = ConfigDict(
        json_schema_extra=validated(
            rule("self.min <= self.default", "min must not be more than default", field_path=".min")
        )
    )

    default: Annotated[int, Field(ge=1, le=100)]
    """What a claim gets that does not ask for an amount, in percent of the GPU's multiprocessors."""
    min: Annotated[int, Field(ge=1, le=50)] = 1
    """The least that a claim gets, in percent."""


class MpsOffer(ApiModel):
    """One GPU for several claims at the same time, each with a part of memory and multiprocessors."""

    # What an MPS server lets in at most.
    max_clients: Annotated[int, Field(ge=2, le=60)]
    """How many claims may hold the GPU at the same time."""
    memory: MpsMemory
    """How the GPU's memory is divided among its claims."""
    threads: MpsThreads
    """How the GPU's multiprocessors are divided among its claims."""


# Without backslashes, which mean something else in CEL.
_MIG_PROFILE = "^[1-9][0-9]*g[.][1-9][0-9]*gb([+-][a-z]+([.][a-z]+)?)?$"


class MigOffer(ApiModel):
    """Parts of a GPU that are isolated by the hardware."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule("has(self.profiles) != has(self.layout)", "give either profiles or layout"),
        )
    )

    profiles: Annotated[
        tuple[Annotated[str, Field(max_length=32, pattern=_MIG_PROFILE)], ...] | None,
        Field(min_length=1, max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = None
    """Kinds of MIG instances ("1g.10gb") that claims can ask for; they are cut when a claim comes."""
    layout: Annotated[
        dict[str, Annotated[int, Field(ge=1, le=16)]] | None,
        Field(
            min_length=1,
            max_length=16,
            json_schema_extra=validated(
                rule(f"self.all(profile, profile.matches('{_MIG_PROFILE}'))", 'must be names such as "1g.10gb"')
            ),
        ),
    ] = None
    """How many MIG instances of which kind the GPU is cut into now, to stay so: then this is the only offer."""


class Offers(ApiModel):
    exclusive: ExclusiveOffer | None = None
    """Offer whole GPUs (device class gpu.nvidia.com)."""
    time_slicing: TimeSlicingOffer | None = None
    """Offer shares of GPUs that take turns (device class timeslicing.gpu.nvidia.com)."""
    mps: MpsOffer | None = None
    """Offer shares of GPUs that compute at the same time (device class mps.gpu.nvidia.com)."""
    mig: MigOffer | None = None
    """Offer isolated parts of GPUs (device class mig.nvidia.com)."""
