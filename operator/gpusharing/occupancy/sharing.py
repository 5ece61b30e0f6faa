"""NodeSharings, decoded as far as it matters who is on which GPU: a fleet has tens of megabytes of them."""

from functools import lru_cache
from typing import Final

import msgspec
from pydantic import ValidationError

from gpusharing.api.sharing.offers import Offers
from gpusharing.core.devices.gpu import Engines, MigProfile, MigSupport
from gpusharing.explaining.lean import Lean, Named


class Policy(msgspec.Struct, frozen=True):
    name: str


class Allocated(msgspec.Struct, frozen=True):
    claim: str
    """The uid."""
    device: str


class Gpu(msgspec.Struct, frozen=True):
    """As the operator decided."""

    uuid: str
    written_offers: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="offers")
    """As JSON: in a fleet, few are different."""
    policy: Policy | None = None
    restricted: bool = False
    allocated: tuple[Allocated, ...] = ()

    @property
    def offers(self) -> Offers | None:
        written = bytes(self.written_offers)
        return _offers(written) if written else None

    @property
    def restricted_to(self) -> str | None:
        return self.policy.name if self.restricted and self.policy else None


class MemoryLimit(msgspec.Struct, frozen=True):
    limit: int


class MpsLimit(msgspec.Struct, frozen=True):
    memory: int | None = None


class Settings(msgspec.Struct, frozen=True):
    device: str
    memory: MemoryLimit | None = None
    mps: MpsLimit | None = None

    @property
    def memory_limit(self) -> int | None:
        if self.memory is not None:
            return self.memory.limit
        return self.mps.memory if self.mps is not None else None


class Entry(msgspec.Struct, frozen=True):
    uid: str
    claim: str
    """Namespace and name."""
    settings: tuple[Settings, ...] = ()


class Spec(msgspec.Struct, frozen=True):
    gpus: tuple[Gpu, ...] = ()
    claims: tuple[Entry, ...] = ()


class Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str = ""


class MigMode(msgspec.Struct, frozen=True):
    enabled: bool


class Instance(msgspec.Struct, frozen=True):
    profile: str
    start: int


class GpuReport(msgspec.Struct, frozen=True, rename="camel"):
    """As the agent reports it."""

    uuid: str
    slot: int
    model: str = ""
    memory: str = "0Mi"
    usable_memory: str | None = None
    policy: Policy | None = None
    pool: str | None = None
    mig_mode: MigMode | None = None
    instances: tuple[Instance, ...] = ()
    conditions: tuple[Condition, ...] = ()


class Profile(msgspec.Struct, frozen=True):
    name: str
    id: int
    slices: int
    memory: int
    size: int
    starts: tuple[int, ...]


class Model(msgspec.Struct, frozen=True, rename="camel"):
    model: str
    switch_resets: bool = False
    profiles: tuple[Profile, ...] = ()

    @property
    def mig(self) -> MigSupport:
        return _mig(self)


class Status(msgspec.Struct, frozen=True):
    gpus: tuple[GpuReport, ...] = ()
    models: tuple[Model, ...] = ()
    conditions: tuple[Condition, ...] = ()


class NodeSharing(msgspec.Struct, frozen=True):
    metadata: Named
    spec: Spec = Spec()
    status: Status = Status()


@lru_cache(1024)
def _offers(written: bytes) -> Offers | None:
    """None: there are none that this version can read."""
    try:
        return Offers.model_validate_json(written)
    except ValidationError:
        return None


@lru_cache(1024)
def _mig(model: Model) -> MigSupport:
    profiles = tuple(
        MigProfile(
            id=one.id,
            name=one.name,
            slices=one.slices,
            memory_mib=one.memory,
            engines=Engines(),
            size=one.size,
            starts=one.starts,
        )
        for one in model.profiles
    )
    return MigSupport(profiles=profiles, switch_resets_gpu=model.switch_resets)


def lean() -> Lean[NodeSharing]:
    return Lean(NodeSharing)


NONE: Final = NodeSharing(Named(name=""))
"""Of a node whose NodeSharing does not exist, or may not be read."""
