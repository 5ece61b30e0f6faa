"""Our own objects: SharingPolicy (what a platform team wants) and NodeSharing (operator and agent about one node)."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from gpusharing.api.base import ApiModel
from gpusharing.api.meta import Condition, LabelSelector, ObjectMeta


class Interval(StrEnum):
    """How long a client may run before the next one gets the GPU. The driver chooses the milliseconds."""

    DEFAULT = "Default"
    SHORT = "Short"
    MEDIUM = "Medium"
    LONG = "Long"


def _rule(
    rule: str, message: str, *, reason: str = "FieldValueInvalid", field_path: str | None = None
) -> dict[str, str]:
    return {"rule": rule, "message": message, "reason": reason} | ({"fieldPath": field_path} if field_path else {})


# --------------------------------------------------------------------------------------------------- SharingPolicy


class CelSelector(ApiModel):
    expression: Annotated[str, Field(min_length=1, max_length=10240)]
    """A CEL expression over `device`, as in a DeviceClass."""


class DeviceSelector(ApiModel):
    cel: CelSelector
    """The expression that a GPU must match."""


class GpuSelection(ApiModel):
    selectors: Annotated[tuple[DeviceSelector, ...], Field(max_length=32)] = ()
    """A GPU must match all of them. They see the whole GPU, as those of a DeviceClass do. Empty: every GPU matches."""
    max_per_node: Annotated[
        int | str | None,
        Field(
            json_schema_extra={
                "x-kubernetes-validations": [
                    _rule(
                        "type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",
                        'must be a number of at least 1, or a percentage from "1%" to "100%"',
                    )
                ]
            }
        ),
    ] = None
    """At most so many GPUs of a node: a number, or a percentage ("50%", rounded down, at least 1). Empty: all."""


class ExclusiveOffer(ApiModel):
    """A whole GPU for one claim at a time."""


class TimeSlicingOffer(ApiModel):
    """One GPU for several claims in turns. There is no isolation between them."""

    max_clients: Annotated[int, Field(ge=2, le=256)]
    """How many claims may hold the GPU at the same time."""
    interval: Interval = Interval.DEFAULT
    """How long a client may run before the next one gets the GPU: Default, Short, Medium or Long."""


class Offers(ApiModel):
    exclusive: ExclusiveOffer | None = None
    """Offer whole GPUs (device class gpu.nvidia.com)."""
    time_slicing: TimeSlicingOffer | None = None
    """Offer shares of GPUs that take turns (device class timeslicing.gpu.nvidia.com)."""


class SharingPolicySpec(ApiModel):
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] = 0
    """When several policies want a GPU, the highest priority wins; among equals the name that sorts first."""
    nodes: LabelSelector = LabelSelector()
    """The nodes whose GPUs this policy wants. Empty: every node with GPUs."""
    gpus: GpuSelection = GpuSelection()
    """The GPUs of these nodes that this policy wants. Empty: all of them."""
    offers: Annotated[
        Offers,
        Field(
            json_schema_extra={
                "x-kubernetes-validations": [
                    _rule(
                        "has(self.exclusive) || has(self.timeSlicing)",
                        "offer at least one of exclusive and timeSlicing; to offer nothing, delete the policy",
                        reason="FieldValueRequired",
                    )
                ]
            }
        ),
    ]
    """The ways in which each of these GPUs is offered, at the same time."""


class NodeCount(ApiModel):
    selected: int
    """Nodes with GPUs that the policy selects."""
    ready: int
    """Those of them on which everything that the policy won is in force."""


class GpuCount(ApiModel):
    won: int
    """GPUs that are shared as this policy says."""
    lost: int
    """GPUs that it wanted and another policy won."""


class ClientCount(ApiModel):
    current: int
    """Claims that hold a device of a GPU of this policy."""
    max: int
    """Claims that its GPUs can hold at the same time, when they are shared as widely as it allows."""


Conditions = Annotated[
    tuple[Condition, ...],
    Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]


class SharingPolicyStatus(ApiModel):
    observed_generation: int | None = None
    """The generation of the spec that this status speaks of."""
    conditions: Conditions = ()
    """Accepted, Ready, Conflicted and Degraded."""
    nodes: NodeCount | None = None
    """How many nodes it selects, and on how many it is in force."""
    gpus: GpuCount | None = None
    """How many GPUs it won and lost."""
    clients: ClientCount | None = None
    """How many claims use its GPUs."""


class SharingPolicy(ApiModel):
    """Which GPUs are shared, in which ways, by whom and how much."""

    metadata: ObjectMeta
    spec: SharingPolicySpec
    """What the platform team wants."""
    status: SharingPolicyStatus = SharingPolicyStatus()
    """What has become of it, written by the operator."""


# ----------------------------------------------------------------------------------------------------- NodeSharing


class PolicyReference(ApiModel):
    name: str
    """The policy's name."""
    generation: int
    """The generation of the policy that was resolved."""


class LossReason(StrEnum):
    LOWER_PRIORITY = "LowerPriority"
    NAME_SORTS_LATER = "NameSortsLater"
    SELECTOR_FAILED = "SelectorFailed"
    """A selector of a policy with a higher rank has no answer for the GPU, so nobody new gets it."""


class Loser(ApiModel):
    policy: str
    """A policy that wanted this GPU too."""
    reason: LossReason
    """Why it did not get it."""


class GpuSharing(ApiModel):
    uuid: str
    """The GPU."""
    policy: PolicyReference | None = None
    """The policy that won this GPU. Absent: none did, the GPU is offered as it is found."""
    losers: tuple[Loser, ...] = ()
    """Policies that wanted it and did not win, with the reason."""
    offers: Offers | None = None
    """The ways in which the GPU is to be offered, resolved for this GPU. Absent: as it is found."""


class Verdict(StrEnum):
    ALLOWED = "Allowed"
    DENIED = "Denied"


class SettingSources(ApiModel):
    interval: str | None = None
    """Where the interval comes from: policy/<name>, claim, or class."""


class DeviceSettings(ApiModel):
    request: str
    """The request of the claim."""
    device: str
    """The device that was allocated for it."""
    interval: Interval | None = None
    """The time slice that clients get. Absent: the GPU's own is left as it is."""
    sources: Annotated[SettingSources | None, Field(alias="from")] = None
    """Where each setting comes from."""
    ignored: tuple[str, ...] = ()
    """What the claim asked for and does not get, and why."""


class ClaimSharing(ApiModel):
    uid: str
    """The ResourceClaim."""
    claim: str
    """Its namespace and name, for people."""
    allocation_hash: str
    """The allocation that this entry speaks of; for any other it is void."""
    verdict: Verdict
    """Allowed, or Denied: then nothing of it is prepared."""
    reason: str | None = None
    """Why it is denied."""
    settings: tuple[DeviceSettings, ...] = ()
    """What each device of this node is set to while the claim holds it."""


_BY_UUID = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uuid"]}
_BY_UID = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"]}


class NodeSharingSpec(ApiModel):
    """Written by the operator."""

    gpus: Annotated[tuple[GpuSharing, ...], Field(json_schema_extra=_BY_UUID)] = ()
    """The GPUs that the agent reported, and how each is to be shared."""
    claims: Annotated[tuple[ClaimSharing, ...], Field(json_schema_extra=_BY_UID)] = ()
    """The claims that hold devices of this node, and the settings that they get."""


class PublishedDevice(ApiModel):
    device: str
    """A device name in the node's ResourceSlices."""


class DeviceAttribute(TypedDict, total=False):
    """An attribute as in a ResourceSlice: exactly one of these."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True)  # type: ignore[misc]

    string: str
    """A text."""
    version: str
    """A semantic version."""
    int: int
    """A whole number."""
    bool: bool
    """Yes or no."""


class GpuStatus(ApiModel):
    uuid: str
    """The GPU, for as long as the board lives."""
    slot: int
    """The N of gpu-N in device names; it stays with the GPU."""
    minor: int
    """The N of /dev/nvidiaN at the moment."""
    model: str
    """The product name."""
    memory: str
    """Total memory, as a quantity."""
    attributes: Annotated[dict[str, DeviceAttribute], Field(default_factory=dict)]
    """What selectors see, as on the devices in ResourceSlices."""
    policy: PolicyReference | None = None
    """The policy whose offers are in force. Absent: the GPU is offered as it is found."""
    time_slice: Interval | None = None
    """The time slice that is set. Absent: the GPU has no such setting."""
    compute_mode: Literal["Default", "ExclusiveThread", "Prohibited", "ExclusiveProcess"] | None = None
    """The compute mode that is set."""
    published: tuple[PublishedDevice, ...] = ()
    """The devices that the scheduler is offered."""
    conditions: Conditions = ()
    """What is wrong with this GPU, if anything is."""


class ClaimStatus(ApiModel):
    uid: str
    """The ResourceClaim."""
    claim: str
    """Its namespace and name, for people."""
    settings: tuple[DeviceSettings, ...] = ()
    """What was applied for it."""


class NodeSharingStatus(ApiModel):
    """Written by the node's agent."""

    observed_generation: int | None = None
    """The generation of the spec that the agent acts on."""
    boot_id: Annotated[str | None, Field(alias="bootID")] = None
    """The boot of the node that this was seen in."""
    gpus: Annotated[tuple[GpuStatus, ...], Field(json_schema_extra=_BY_UUID)] = ()
    """The GPUs of the node."""
    claims: Annotated[tuple[ClaimStatus, ...], Field(json_schema_extra=_BY_UID)] = ()
    """The claims that are prepared."""
    conditions: Conditions = ()
    """Ready."""


class NodeSharing(ApiModel):
    """How the GPUs of one node are shared: the operator writes the spec, the node's agent the status."""

    metadata: ObjectMeta
    spec: NodeSharingSpec = NodeSharingSpec()
    """How each GPU of the node is to be shared, written by the operator."""
    status: NodeSharingStatus = NodeSharingStatus()
    """What the node has and does, written by its agent."""
