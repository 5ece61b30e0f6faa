"""Which namespaces may use the GPUs of a policy, and how much."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gpusharing.api.base import ApiModel
from gpusharing.api.meta import LabelSelector
from gpusharing.api.sharing.amounts import AMOUNT
from gpusharing.api.sharing.offers import Interval
from gpusharing.api.sharing.rules import SET


class Strategy(StrEnum):
    """The strategies of a claim's own GpuConfig."""

    TIME_SLICING = "TimeSlicing"
    MPS = "MPS"


class Allowance(ApiModel):
    gpu_config: Annotated[tuple[Strategy, ...] | None, Field(max_length=2, json_schema_extra=SET)] = None
    """Strategies that a claim's own GpuConfig may use: TimeSlicing, MPS. Default: both. An empty list allows none."""
    intervals: Annotated[tuple[Interval, ...] | None, Field(max_length=4, json_schema_extra=SET)] = None
    """Intervals that a claim's own GpuConfig may set: Default, Short, Medium, Long. Default: all. An empty list allows
    none."""
    max_threads: Annotated[int, Field(ge=1, le=100)] | None = None
    """The most multiprocessors of one GPU that a claim may get, in percent, from 1 to 100. Default: no limit."""
    max_memory: Annotated[str, *AMOUNT] | None = None
    """The most memory of one shared GPU that a claim may get, in Mi, Gi or Ti ("20Gi"). Default: no limit."""
    max_shares: Annotated[int, Field(ge=1, le=256)] | None = None
    """The most shares of one GPU that a claim may get, from 1 to 256. Default: no limit."""


# Far larger ones are refused by the API server, as no integers.
_Devices = Annotated[int, Field(ge=0, le=1_000_000)]


class Quota(ApiModel):
    """The most devices that all claims of one namespace may ask for, by mode. Absent: no limit."""

    exclusive: _Devices | None = None
    """The most whole GPUs per namespace. Absent: no limit."""
    time_slicing: _Devices | None = None
    """The most time-sliced devices per namespace. Absent: no limit."""
    mps: _Devices | None = None
    """The most MPS devices per namespace. Absent: no limit."""
    mig: _Devices | None = None
    """The most MIG instances per namespace. Absent: no limit."""


class Tenants(ApiModel):
    namespaces: LabelSelector = LabelSelector()
    """Selects the namespaces whose claims may use these GPUs, by their labels. Default: all namespaces. Example:
    {matchLabels: {team: search}}."""
    allow: Allowance = Allowance()
    """Limits on what one claim may ask for. Default: no limits."""
    quota: Quota | None = None
    """The most devices that each of these namespaces may ask for, by mode. The operator writes it as a ResourceQuota.
    Requires tenants.namespaces, and classes.create: true. Default: no limit. Example: {timeSlicing: 16}."""
