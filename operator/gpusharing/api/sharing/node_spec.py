"""How the GPUs of a node are to be shared, and which settings their claims get."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from gpusharing.api import names
from gpusharing.api.base import Numerous, keyed_by
from gpusharing.api.reasons import ExplainedReason
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.api.sharing.offers import Offers
from gpusharing.api.sharing.tenants import Allowance


class PolicyReference(Numerous):
    name: str
    """The name of the policy."""
    generation: int
    """The generation of the policy."""


class LossReason(ExplainedReason):
    LOWER_PRIORITY = (
        "LowerPriority",
        "Another policy that selects the GPU has a higher `priority`.",
        "To win the GPU, raise `priority`.",
    )
    NAME_SORTS_LATER = (
        "NameSortsLater",
        "Another policy that selects the GPU has the same `priority`, and its name sorts first.",
        "Give the policies different priorities.",
    )
    SELECTOR_FAILED = (
        "SelectorFailed",
        "A selector of a policy that ranks higher failed on the GPU, so no other policy gets it.",
        "Correct the selector that condition `Degraded` of that policy names.",
    )


class Loser(Numerous):
    policy: str
    """The name of a policy that selects this GPU and did not win it."""
    reason: LossReason
    """Why the policy did not win the GPU."""


class RefusalReason(StrEnum):
    MEMORY_TOO_SMALL = "MemoryTooSmall"
    """An amount is more than the GPU has, or the amounts contradict each other on this GPU."""
    UNKNOWN_MIG_PROFILE = "UnknownMigProfile"
    """The GPU does not support the MIG profile."""
    LAYOUT_DOES_NOT_FIT = "LayoutDoesNotFit"
    """The MIG instances of the layout do not fit on the GPU."""
    MEMORY_WALL_UNSUPPORTED = "MemoryWallUnsupported"
    """The driver cannot limit the memory of containers, and the policy requires it."""
    DEFAULT_EXCEEDS_ALLOWANCE = "DefaultExceedsAllowance"
    """The offer's default is more than tenants.allow lets a claim have."""
    INTERNAL_ERROR = "InternalError"
    """The operator cannot decide on this offer, because of a bug."""


IDLE_WAIT: Final = 3600.0
"""Seconds after which no decision of a scheduler can be on its way any more: so long a device has to be closing before
it may be withdrawn, or the closing guard refuses it."""


class Refusal(Numerous):
    sharing: names.Sharing
    """The mode in which the GPU is not offered: Exclusive, TimeSlicing, MPS or MIG."""
    reason: RefusalReason
    """Why the mode is not offered, as one word."""
    message: str
    """Why the mode is not offered, as a sentence with the field and the remedy."""


class AllocatedDevice(Numerous):
    claim: str
    """The UID of the ResourceClaim."""
    device: str
    """The name of the allocated device."""
    share_id: Annotated[str | None, Field(alias="shareID")] = None
    """The ID of the share, if the device is shared."""


class Drain(Numerous):
    mode: Literal["Evict"]
    """Evict: the pods that use a draining device are evicted."""


class GpuSharing(Numerous):
    uuid: str
    """The UUID of the GPU."""
    policy: PolicyReference | None = None
    """The policy that won this GPU. Absent: no policy; the GPU is offered as it was found."""
    priority: int | None = None
    """The priority with which the policy won the GPU. It counts until a later edit of the policy is in force."""
    losers: tuple[Loser, ...] = ()
    """Policies that select this GPU and did not win it, with the reason."""
    offers: Offers | None = None
    """The modes in which the GPU is to be offered, with absolute amounts. Absent: the GPU is offered as it was
    found."""
    refused: tuple[Refusal, ...] = ()
    """Offers of the policy that cannot be provided on this GPU, with the reason."""
    restricted: bool = False
    """True if the GPU is reserved for the tenants of its policy."""
    allow: Allowance | None = None
    """What a claim on this GPU may ask for. Absent: anything."""
    drain: Drain | None = None
    """How devices in a mode that is no longer offered are drained. Absent: the operator waits until their claims are
    released."""
    allocated: tuple[AllocatedDevice, ...] = ()
    """The devices of this GPU that the scheduler has allocated, prepared or not."""
    close_approved: tuple[str, ...] = ()
    """Closing devices that are not allocated, and that the agent may withdraw now."""
    close_approved_since: tuple[str, ...] = ()
    """For each device of closeApproved, the closingSince for which it is approved. The agent ignores an approval for
    any other."""
    closed_names: tuple[str, ...] = ()
    """Names that the closing guard refuses in the pool of this GPU: a device of that name is being withdrawn, or was
    withdrawn less than an hour ago. Each is a device, all MIG devices of the GPU (gpu-0-mig), or all its devices (0).
    The agent offers these devices under other names, such as gpu-0r1-timeslicing."""

    @property
    def restricted_to(self) -> str | None:
        """The policy for whose tenants alone it is reserved."""
        return self.policy.name if self.restricted and self.policy else None


class Verdict(StrEnum):
    ALLOWED = "Allowed"
    DENIED = "Denied"


LONGEST_REASON: Final = 1024


class ClaimSharing(Numerous):
    uid: str
    """The UID of the ResourceClaim."""
    claim: str
    """The namespace and name of the ResourceClaim."""
    allocation_hash: str
    """A hash of the allocation that this entry describes. The agent ignores the entry for any other allocation."""
    verdict: Verdict
    """Allowed or Denied. The agent prepares nothing for a claim that is Denied."""
    reason: Annotated[str | None, Field(max_length=LONGEST_REASON)] = None
    """Why the claim is denied, with the remedy."""
    settings: tuple[DeviceSettings, ...] = ()
    """The settings of each device of this node that is allocated to the claim."""


class NodeSharingSpec(Numerous):
    """How the GPUs of a node are to be shared. Written by the operator."""

    # Limited so that the API server can estimate the cost of the rules in it.
    gpus: Annotated[tuple[GpuSharing, ...], Field(max_length=64, json_schema_extra=keyed_by("uuid"))] = ()
    """How each GPU that the agent reported is to be shared. At most 64."""
    claims: Annotated[tuple[ClaimSharing, ...], Field(json_schema_extra=keyed_by("uid"))] = ()
    """The claims with devices of this node: verdict and settings."""
