"""One GPU as it is to be offered: all that its devices are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpusharing.api.sharing.gpu_status import NOT_REPORTED, MemoryWallSupport
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.offers import Enforcement, ExclusiveOffer, Offers
from gpusharing.api.sharing.tenants import Allowance
from gpusharing.core.devices.gpu import Gpu, MigInstance

AS_FOUND: Final = Offers(exclusive=ExclusiveOffer())


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedGpu:
    gpu: Gpu
    offers: Offers
    """Resolved for this GPU (`core.resolution`)."""
    policy: PolicyReference | None
    configured: bool
    """False until the operator has spoken: then nothing may be scheduled here that a policy might have restricted."""
    restricted: bool = False
    """Whether it is for the tenants of its policy only."""
    allow: Allowance | None = None
    """What a claim may ask for. None: anything."""
    evicts: bool = False
    """Whether pods that use draining devices are evicted. Otherwise they keep them until they end."""
    mig_enabled: bool = False
    """Whether MIG mode is on at the moment."""
    instances: tuple[MigInstance, ...] = ()
    """MIG instances that are not made for claims: those of a static layout, and those that others made."""
    memory_wall: MemoryWallSupport = NOT_REPORTED
    """Whether the driver can hold containers to a part of its memory."""

    made: tuple[MigInstance, ...] = ()
    """MIG instances that are made for claims, of which the uuid is published. With their claims they go."""

    unhealthy: Mapping[str, str] = field(default_factory=dict)
    """By device, why no new claim may get it, in one word."""
    held: frozenset[str] = frozenset()
    """Devices that cannot be prepared: a claim that the API does not know as allocated has the GPU."""
    agent_stopped: bool = False
    """Whether no agent runs that could prepare it."""

    @property
    def wants_walls(self) -> bool:
        """Whether time-sliced claims get memory limits, at least where the driver supports them."""
        memory = self.offers.time_slicing.memory if self.offers.time_slicing else None
        return memory is not None and memory.enforcement is not Enforcement.NONE
