"""What a device is set to while a claim holds it."""

from typing import Annotated

from pydantic import Field

from gpusharing.api.base import Numerous
from gpusharing.api.sharing.offers import Enforcement, Interval


class SettingSources(Numerous):
    interval: str | None = None
    """Where the interval comes from: policy/<name>, claim, or class."""
    memory: str | None = None
    """Where the limit of memory comes from: allocation, or policy/<name>."""
    mps: str | None = None
    """Where the limits of MPS come from, likewise."""


class MemorySettings(Numerous):
    limit: int
    """How much of the GPU's memory a container may have, in MiB."""
    enforcement: Enforcement
    """Whether a container that cannot be held to it does not start (Required) or does all the same (Preferred)."""


class MpsSettings(Numerous):
    memory: int | None = None
    """Most memory that a client may allocate, in MiB. Absent: as much as the daemon allows."""
    threads: int | None = None
    """Most of the GPU's multiprocessors that a client may use, in percent. Absent: as many as the daemon allows."""
    most_memory: int | None = None
    """What the daemon allows each client at most, in MiB."""
    most_threads: int = 100
    """What the daemon allows each client at most, in percent."""


class DeviceSettings(Numerous):
    request: str
    """The request of the claim."""
    device: str
    """The device that was allocated for it."""
    interval: Interval | None = None
    """The time slice that clients get. Absent: the GPU's own is left as it is."""
    memory: MemorySettings | None = None
    """What the driver holds each container to. Absent: it may take all of the GPU's memory."""
    mps: MpsSettings | None = None
    """The limits of a device that is used through MPS."""
    sources: Annotated[SettingSources | None, Field(alias="from")] = None
    """Where each setting comes from."""
    ignored: tuple[str, ...] = ()
    """What the claim asked for and does not get, and why."""
