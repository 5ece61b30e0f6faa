"""What the claims that hold a GPU want it to be."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpusharing.agent.state.models import PreparedDevice
from gpusharing.api import names
from gpusharing.api.sharing.offers import Interval
from gpusharing.core.publishing.mig_at_rest import AS_IT_IS, Cut
from gpusharing.nvidia.facts import MigPlace


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTarget:
    interval: Interval | None = None
    mps: bool = False
    places: Mapping[MigPlace, str | None] = field(default_factory=dict)
    """The MIG instances, each with the uuid by which a container knows it already."""
    at_rest: Cut = AS_IT_IS
    """What is to be there beside them."""

    def keeps(self, place: MigPlace) -> bool:
        return place in self.places or place in self.at_rest.places


def of(devices: Iterable[PreparedDevice], at_rest: Cut = AS_IT_IS) -> GpuTarget:
    """Claims of one GPU agree: all shares have the settings of its policy, and a whole GPU has one claim."""
    interval = None
    mps = False
    places: dict[MigPlace, str | None] = {}
    for device in devices:
        interval = interval or device.settings.interval
        mps = mps or device.settings.mps is not None
        if (place := place_of(device.device)) is not None:
            places[place] = device.mig_uuid
    return GpuTarget(interval=interval, mps=mps, places=places, at_rest=at_rest)


def waits_for_instance(device: PreparedDevice) -> bool:
    """Whether it is not known yet what leads containers into its MIG instance."""
    return place_of(device.device) is not None and not device.admin and device.mig_uuid is None


def place_of(device: str) -> MigPlace | None:
    name = names.read_device(device)
    return name.place if name else None
