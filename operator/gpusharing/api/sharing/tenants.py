"""Who may use the GPUs of a policy, and how much of them."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gpusharing.api.base import ApiModel
from gpusharing.api.meta import LabelSelector
from gpusharing.api.sharing.offers import Interval
from gpusharing.api.sharing.rules import SET, checked, rule, validated


class Strategy(StrEnum):
    """What a claim's own GpuConfig may set a GPU to."""

    TIME_SLICING = "TimeSlicing"
    MPS = "MPS"


class Allowance(ApiModel):
    gpu_config: Annotated[tuple[Strategy, ...] | None, Field(max_length=2, json_schema_extra=SET)] = None
    """Strategies that a claim's own GpuConfig may name: TimeSlicing, MPS. Absent: both; empty: none."""
    intervals: Annotated[tuple[Interval, ...] | None, Field(max_length=4, json_schema_extra=SET)] = None
    """Intervals that a claim's own GpuConfig may set. Absent: all of them; empty: none."""
    max_threads: Annotated[int, Field(ge=1, le=100)] | None = None
    """The most of a GPU's multiprocessors that one claim may get, in percent."""
    max_memory: (
        Annotated[
            str,
            checked('an amount such as "20Gi"', "[1-9][0-9]*(Mi|Gi|Ti)"),
            Field(
                max_length=16,
                json_schema_extra=validated(
                    rule("self.matches('^[1-9][0-9]*(Mi|Gi|Ti)$')", 'must be a whole number of Mi, Gi or Ti ("20Gi")')
                ),
            ),
        ]
        | None
    ) = None
    """The most of a shared GPU's memory that one claim may get."""
    max_shares: Annotated[int, Field(ge=1, le=256)] | None = None
    """The most shares of a GPU that one claim may get."""


# Far larger ones are refused by the API server, as no integers.
_Devices = Annotated[int, Field(ge=0, le=1_000_000)]


class Quota(ApiModel):
    """Devices that the claims of one namespace may ask for, by the way in which they are shared. Absent: any number."""

    exclusive: _Devices | None = None
    """Whole GPUs."""
    time_slicing: _Devices | None = None
    """Shares of GPUs that take turns."""
    mps: _Devices | None = None
    """Shares of GPUs that compute at the same time."""
    mig: _Devices | None = None
    """Isolated parts of GPUs."""


class Tenants(ApiModel):
    namespaces: LabelSelector = LabelSelector()
    """The namespaces whose claims may use these GPUs. Empty: all of them."""
    allow: Allowance = Allowance()
    """What a claim may ask for."""
    quota: Quota | None = None
    """How many devices each of the namespaces may ask for."""
