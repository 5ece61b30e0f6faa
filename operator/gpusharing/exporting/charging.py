"""What Kueue charges for a claim of a class: devices, shares, or GPU memory."""

from enum import StrEnum
from typing import Any, Final, NamedTuple

from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.exporting.queues import QueuedClass


class Charge(StrEnum):
    DEVICES = "devices"
    SHARES = "shares"
    MEMORY = "memory"


class Charged(NamedTuple):
    """How a class is charged in fact."""

    unit: Charge
    source: dict[str, Any] | None = None
    """Where Kueue reads an amount; None: it counts devices."""
    why_not: str = ""
    """Why the unit is not the one that was asked for."""
    remedy: str = ""

    @property
    def needs_capacity(self) -> bool:
        return self.source is not None and "capacity" in self.source


_DEVICES: Final = Charged(Charge.DEVICES)
_PREFIXES: Final = {Charge.DEVICES: "", Charge.SHARES: "shares.", Charge.MEMORY: "memory."}


def resource_name(queued: QueuedClass, unit: Charge) -> str:
    """With its unit: Kueue would add up memory and devices of the same name."""
    return f"{_PREFIXES[unit]}{names.GROUP}/{queued.name}"


def charged(queued: QueuedClass, charge: Charge) -> Charged:
    is_shared = queued.sharing in {Sharing.TIME_SLICING, Sharing.MPS}
    match charge:
        case Charge.SHARES if is_shared:
            return Charged(Charge.SHARES, _capacity(queued, "shares"))
        case Charge.MEMORY:
            return _in_memory(queued)
    return _DEVICES


def _in_memory(queued: QueuedClass) -> Charged:
    offers = queued.policy.spec.offers
    match queued.sharing:
        case Sharing.EXCLUSIVE:
            # For what a claim asks Kueue charges the amount asked for, and the claim gets all of the GPU.
            why = "a claim for a whole GPU would be charged the memory that it asks for, and gets all of it"
            return _DEVICES._replace(why_not=why, remedy="Count whole GPUs in the ClusterQueue, too.")
        case Sharing.TIME_SLICING if offers.time_slicing and offers.time_slicing.memory is None:
            why = "a claim can use all memory of the GPU, and would be charged 0"
            return _DEVICES._replace(why_not=why, remedy="Set offers.timeSlicing.memory.")
        case Sharing.MIG if offers.mig and offers.mig.layout:
            why = "instances of a layout exclude nothing, so they have no counter of memory"
            return _DEVICES._replace(why_not=why, remedy="Set offers.mig.profiles instead of offers.mig.layout.")
        case Sharing.MIG:
            return Charged(Charge.MEMORY, {"counter": _read("memory", queued)})
    return Charged(Charge.MEMORY, _capacity(queued, "memory"))


def _capacity(queued: QueuedClass, name: str) -> dict[str, Any]:
    return {"capacity": _read(name, queued)}


def _read(name: str, queued: QueuedClass) -> dict[str, Any]:
    # A class of the same devices may be made that selects whole GPUs as well: these would be charged in full.
    selector = f'device.attributes["{names.GROUP}"].?sharing.orValue("") == "{queued.sharing}"'
    return {"name": name, "driver": names.DRIVER, "deviceSelector": {"cel": {"expression": selector}}}
