"""The settings of a device while it is allocated to a claim."""

from typing import Annotated

from pydantic import Field

from gpusharing.api.base import Numerous
from gpusharing.api.sharing.offers import Enforcement, Interval


class SettingSources(Numerous):
    interval: str | None = None
    """Source of the interval: policy/<name>, claim or class."""
    memory: str | None = None
    """Source of the memory limit: allocation or policy/<name>."""
    mps: str | None = None
    """Source of the MPS limits."""


class MemorySettings(Numerous):
    limit: int
    """The most GPU memory that a container may use, in MiB."""
    enforcement: Enforcement
    """If the limit cannot be set for a container: Required stops the container from starting, Preferred starts it
    without the limit."""


class MpsSettings(Numerous):
    memory: int | None = None
    """The most memory that a client may allocate, in MiB. Absent: as much as mostMemory."""
    threads: int | None = None
    """The most multiprocessors that a client may use, in percent of the GPU. Absent: as many as mostThreads."""
    most_memory: int | None = None
    """The most memory that the MPS daemon gives to any client, in MiB."""
    most_threads: int = 100
    """The most multiprocessors that the MPS daemon gives to any client, in percent of the GPU."""


class DeviceSettings(Numerous):
    request: str
    """The name of the request in the claim."""
    device: str
    """The device that was allocated for the request."""
    interval: Interval | None = None
    """The time slice of the GPU. Absent: it is left unchanged."""
    memory: MemorySettings | None = None
    """The memory limit of each container. Absent: no limit."""
    mps: MpsSettings | None = None
    """The limits of a device in MPS mode."""
    sources: Annotated[SettingSources | None, Field(alias="from")] = None
    """The source of each setting."""
    ignored: tuple[str, ...] = ()
    """Settings that the claim asked for and that were ignored, with the reason."""
