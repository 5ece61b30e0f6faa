"""Every name that crosses a process border, spelled once."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

GROUP: Final = "gpusharing.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

DRIVER: Final = "gpu.nvidia.com"
# The device classes that are for everybody. They are part of the installation.
INSTALLED_CLASSES: Final = frozenset(
    {"gpu.nvidia.com", "mig.nvidia.com", "timeslicing.gpu.nvidia.com", "mps.gpu.nvidia.com"}
)

# A policy's name becomes part of the names of its classes, which are names of extended resources too: 63 characters,
# less "-timeslicing".
MAX_POLICY_NAME: Final = 51

# Attributes and taints of our own on published devices.
SHARING_ATTRIBUTE: Final = f"{GROUP}/sharing"
POLICY_ATTRIBUTE: Final = f"{GROUP}/policy"
RESTRICTED_ATTRIBUTE: Final = f"{GROUP}/restricted"
MEMORY_WALL_ATTRIBUTE: Final = f"{GROUP}/memoryWall"
# On what the operator makes for a policy.
POLICY_LABEL: Final = f"{GROUP}/policy"
QUOTA_PREFIX: Final = "gpusharing-"
CLOSING: Final = f"{GROUP}/closing"
DRAINING: Final = f"{GROUP}/draining"
UNCONFIGURED_TAINT: Final = f"{GROUP}/unconfigured"
UNHEALTHY_TAINT: Final = f"{GROUP}/unhealthy"
AGENT_STOPPED_TAINT: Final = f"{GROUP}/agent-stopped"
HELD_TAINT: Final = f"{GROUP}/held"
CONFLICT_TAINT: Final = f"{GROUP}/conflict"
# An annotation of NodeSharings: the faults that an administrator has cleared.
CLEARED_FAULTS: Final = f"{GROUP}/cleared-faults"
# An annotation of any object: codes of findings (GSH0204,GSH0301) that commands do not report for it.
IGNORED_FINDINGS: Final = f"{GROUP}/ignore-findings"

CLOSING_GUARD: Final = "gpusharing-closing"

# On objects that the operator makes and takes away again.
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
OPERATOR: Final = "gpusharing-operator"
AGENT: Final = "gpusharing-agent"
NAMESPACE: Final = "gpusharing-system"
"""Of both, in the manifests. The Helm chart installs into any."""
PROGRAM_LABEL: Final = "app.kubernetes.io/name"
"""Of the pods of both programs, and of their DaemonSet and Deployment."""


def program_of(labels: Mapping[str, str]) -> str | None:
    """OPERATOR, AGENT, or none of them."""
    name = labels.get(PROGRAM_LABEL)
    return name if name in {OPERATOR, AGENT} else None


class Sharing(StrEnum):
    """The mode of a device; the value of the attribute gpusharing.dev/sharing."""

    EXCLUSIVE = "Exclusive"
    TIME_SLICING = "TimeSlicing"
    MPS = "MPS"
    MIG = "MIG"


# Short: whoever writes objects may write a number that Python refuses to read.
_NUMBER: Final = "0|[1-9][0-9]{0,8}"
_DEVICE_NAME: Final = re.compile(
    rf"gpu-(?P<slot>{_NUMBER})(?:r(?P<revision>[1-9][0-9]{{0,8}}))?"
    rf"(?:-(?P<shared>timeslicing|mps)|-mig-[a-z0-9]+(?:-[a-z0-9]+)*-(?P<profile>{_NUMBER})-(?P<start>{_NUMBER}))?"
)
_SHARED: Final = {"timeslicing": Sharing.TIME_SLICING, "mps": Sharing.MPS}


class MigPlace(NamedTuple):
    """Names a MIG instance before it is made and while it is there: at one time there is one at a place."""

    profile_id: int
    start: int
    """The first of its memory slices."""


class DeviceName(NamedTuple):
    """What a device's name says of it: the same for all its revisions."""

    slot: int
    sharing: Sharing
    place: MigPlace | None = None
    """Of a MIG device."""


def whole_device(slot: int) -> str:
    return f"gpu-{slot}"


def time_sliced_device(slot: int) -> str:
    return f"gpu-{slot}-timeslicing"


def mps_device(slot: int) -> str:
    return f"gpu-{slot}-mps"


def mig_device(slot: int, profile: str, place: MigPlace) -> str:
    """As NVIDIA's driver names it: gpu-0-mig-1g10gb-me-20-5."""
    label = profile.replace(".", "").replace("+", "-")
    return f"gpu-{slot}-mig-{label}-{place.profile_id}-{place.start}"


@lru_cache(4096)  # A fleet has few different names of devices, and they are read for each claim again and again.
def read_device(device: str) -> DeviceName | None:
    """None for a name that we never give."""
    match = _DEVICE_NAME.fullmatch(device)
    if match is None:
        return None
    slot = int(match["slot"])
    if match["profile"]:
        return DeviceName(slot, Sharing.MIG, MigPlace(int(match["profile"]), int(match["start"])))
    return DeviceName(slot, _SHARED[match["shared"]] if match["shared"] else Sharing.EXCLUSIVE)


def revision_of_device(device: str) -> int:
    """0 also for a name that we never give."""
    match = _DEVICE_NAME.fullmatch(device)
    return int(match["revision"] or 0) if match else 0


def at_revision(device: str, revision: int) -> str:
    """Another name of the same device: `gpu-0r1-mps` for `gpu-0-mps`. The closing guard may refuse a name for an hour,
    and the device is offered under the next one meanwhile."""
    number, found, rest = device.removeprefix("gpu-").partition("-")
    slot = number.partition("r")[0]
    return f"gpu-{slot}{f'r{revision}' if revision else ''}{found}{rest}"


def items_of_device(device: str) -> tuple[str, str, str]:
    """The items by which the closing guard refuses it: its name, all MIG devices of its GPU (`gpu-0-mig`), all devices
    of its GPU (`0`, or `0r1` for those of revision 1). The guard says the same in CEL."""
    head, is_mig, _ = device.partition("-mig-")
    return device, f"{head}-mig" if is_mig else device, device.split("-")[1] if "-" in device else device


def is_covered(device: str, items: Iterable[str]) -> bool:
    """Whether one of these items is about it."""
    return not set(items_of_device(device)).isdisjoint(items)


def slot_of_item(item: str) -> str:
    """The slot of the GPU whose devices an item of the closing guard is about."""
    return item.removeprefix("gpu-").partition("-")[0].partition("r")[0]


def slot_of_device(device: str) -> int | None:
    """The slot of the GPU that a device name of ours speaks of; None for a name that we never give."""
    name = read_device(device)
    return name.slot if name else None


def sharing_of_device(device: str) -> Sharing | None:
    """The mode of a device of ours; None for a name that we never give."""
    name = read_device(device)
    return name.sharing if name else None


def pool(node: str, *, restricted_to: str | None = None) -> str:
    """Devices that are for the tenants of one policy have a pool of their own, by which the wall tells them apart."""
    return f"{node}/{restricted_to}" if restricted_to else node


def node_of_pool(pool: str) -> str:
    """Names of nodes have no slash."""
    return pool.partition("/")[0]


def policy_of_pool(pool: str) -> str | None:
    """The policy whose tenants its devices are for; None: they are for everybody."""
    return pool.partition("/")[2] or None


_CLASS_SUFFIXES: Final = {
    Sharing.EXCLUSIVE: "exclusive",
    Sharing.TIME_SLICING: "timeslicing",
    Sharing.MPS: "mps",
    Sharing.MIG: "mig",
}


def policy_class(policy: str, sharing: Sharing) -> str:
    """The device class of a policy's own devices."""
    return f"{policy}-{_CLASS_SUFFIXES[sharing]}"
