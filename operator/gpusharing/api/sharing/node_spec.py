"""How the GPUs of a node are to be shared, and what the claims on them get."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from gpusharing.api import names
from gpusharing.api.base import Numerous, keyed_by
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.api.sharing.offers import Offers
from gpusharing.api.sharing.tenants import Allowance


class PolicyReference(Numerous):
    name: str
    """The policy's name."""
    generation: int
    """The generation of the policy that was resolved."""


class LossReason(StrEnum):
    LOWER_PRIORITY = "LowerPriority"
    NAME_SORTS_LATER = "NameSortsLater"
    SELECTOR_FAILED = "SelectorFailed"
    """A selector of a policy with a higher rank has no answer for the GPU, so nobody new gets it."""


class Loser(Numerous):
    policy: str
    """A policy that wanted this GPU too."""
    reason: LossReason
    """Why it did not get it."""


class RefusalReason(StrEnum):
    MEMORY_TOO_SMALL = "MemoryTooSmall"
    """An amount is more than the GPU has, or the amounts do not go together on it."""
    UNKNOWN_MIG_PROFILE = "UnknownMigProfile"
    """The GPU cannot be cut in this way."""
    LAYOUT_DOES_NOT_FIT = "LayoutDoesNotFit"
    """So many instances of these kinds have no room on the GPU."""
    MEMORY_WALL_UNSUPPORTED = "MemoryWallUnsupported"
    """Containers cannot be held to a part of the GPU's memory, and the policy requires that they are."""
    ALLOWANCE_TOO_SMALL = "AllowanceTooSmall"
    """Who does not ask for an amount would get more than a claim may have."""
    INTERNAL_ERROR = "InternalError"
    """The operator fails on this offer."""


class Refusal(Numerous):
    sharing: names.Sharing
    """The way in which the GPU is not offered."""
    reason: RefusalReason
    """Why not."""
    message: str
    """Why not, in a sentence that names the field and what to do."""


class AllocatedDevice(Numerous):
    claim: str
    """The uid of the ResourceClaim."""
    device: str
    """The device that it holds."""
    share_id: Annotated[str | None, Field(alias="shareID")] = None
    """Which share of it, where it is shared."""


class Drain(Numerous):
    mode: Literal["Evict"]
    """Evict: pods that hold a draining device are evicted."""


class GpuSharing(Numerous):
    uuid: str
    """The GPU."""
    policy: PolicyReference | None = None
    """The policy that won this GPU. Absent: none did, the GPU is offered as it is found."""
    priority: int | None = None
    """With which it won. It holds the GPU with it while a later edit of the policy is not in force."""
    losers: tuple[Loser, ...] = ()
    """Policies that wanted it and did not win, with the reason."""
    offers: Offers | None = None
    """The ways in which the GPU is to be offered, with the amounts that they come to on it. Absent: as it is found."""
    refused: tuple[Refusal, ...] = ()
    """Offers of the policy that this GPU cannot carry."""
    restricted: bool = False
    """Whether it is for the tenants of its policy only."""
    allow: Allowance | None = None
    """What a claim may ask for. Absent: anything."""
    drain: Drain | None = None
    """How those leave who hold what is not offered any more. Absent: when they like."""
    allocated: tuple[AllocatedDevice, ...] = ()
    """What the API says is allocated of it, prepared or not."""
    close_approved: tuple[str, ...] = ()
    """Idle devices that have been closing for long and that nobody holds: they may be withdrawn."""

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
    """The ResourceClaim."""
    claim: str
    """Its namespace and name, for people."""
    allocation_hash: str
    """The allocation that this entry speaks of; for any other it is void."""
    verdict: Verdict
    """Allowed, or Denied: then nothing of it is prepared."""
    reason: Annotated[str | None, Field(max_length=LONGEST_REASON)] = None
    """Why it is denied."""
    settings: tuple[DeviceSettings, ...] = ()
    """What each device of this node is set to while the claim holds it."""


class NodeSharingSpec(Numerous):
    """Written by the operator."""

    # Limited so that the API server can tell what the rules in it may cost.
    gpus: Annotated[tuple[GpuSharing, ...], Field(max_length=64, json_schema_extra=keyed_by("uuid"))] = ()
    """The GPUs that the agent reported, and how each is to be shared."""
    claims: Annotated[tuple[ClaimSharing, ...], Field(json_schema_extra=keyed_by("uid"))] = ()
    """The claims that hold devices of this node, and the settings that they get."""
