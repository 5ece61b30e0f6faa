"""What differs from one real node to another, where code could have guessed wrong. A node has its quirks for life.

docs/simulation.md says of each what it is, and docs/hardware.md what is known of real nodes that are so.
"""

from __future__ import annotations

from enum import IntFlag, auto

from gpusharing.sim.errors import SimError


class Quirk(IntFlag):
    """The bits of the node's state; the C programs have them from here."""

    HOST_LIBC = auto()
    MPS_INDEX_ONLY = auto()
    MPS_ECHO_GIB = auto()
    TIMESLICE_UNREADABLE = auto()
    SLOW_NVML = auto()
    OPERATOR_ROOT = auto()
    NO_CDI = auto()
    MEMORY_INFO_UNSUPPORTED = auto()
    VGPU_GUEST = auto()
    SELINUX = auto()
    LATE_UVM = auto()
    ODD_SAMPLES = auto()

    @property
    def option(self) -> str:
        """As `--quirks` takes it."""
        return str(self.name).lower().replace("_", "-")


NONE = Quirk(0)


def parse_quirks(text: str) -> Quirk:
    """`slow-nvml,no-cdi`"""
    known = {quirk.option: quirk for quirk in Quirk}
    quirks = NONE
    for name in filter(None, text.split(",")):
        if name not in known:
            raise SimError(f"unknown quirk {name!r}: known are {', '.join(known)}")
        quirks |= known[name]
    return quirks
