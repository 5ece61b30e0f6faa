"""Our own objects: SharingPolicy (what a platform team wants) and NodeSharing (operator and agent about one node)."""

import re
from enum import StrEnum
from functools import lru_cache
from sys import intern
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field
from typing_extensions import TypedDict

from gpusharing.api import names
from gpusharing.api.base import ApiModel, Numerous
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


def _validated(*rules: dict[str, str]) -> Any:
    return {"x-kubernetes-validations": list(rules)}


def _checked(what: str, pattern: str) -> Any:
    """What the CRD's rules promise, where an API server did not hold to them: calculations may rely on it."""
    compiled = re.compile(pattern, re.ASCII)

    def check(value: int | str) -> int | str:
        if (isinstance(value, int) and value < 1) or (isinstance(value, str) and not compiled.fullmatch(value)):
            raise ValueError(f"must be {what}")
        return value

    return AfterValidator(check)


CountOrPercentage = Annotated[
    int | str,
    _checked('a number of at least 1, or a percentage from "1%" to "100%"', "([1-9][0-9]?|100)%"),
    Field(
        json_schema_extra=_validated(
            _rule(
                "type(self) == int ? self >= 1 : self.matches('^([1-9][0-9]?|100)%$')",
                'must be a number of at least 1, or a percentage from "1%" to "100%"',
            )
        )
    ),
]


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
    max_per_node: CountOrPercentage | None = None
    """At most so many GPUs of a node: a number, or a percentage ("50%", rounded down, at least 1). Empty: all."""


class ExclusiveOffer(ApiModel):
    """A whole GPU for one claim at a time."""


# Whole mebibytes, because that is what scheduler and hardware are told in the end.
Memory = Annotated[
    str,
    _checked(
        'an amount such as "8Gi", or a percentage from "1%" to "100%"', "([1-9][0-9]?|100)%|[1-9][0-9]*(Mi|Gi|Ti)"
    ),
    Field(
        max_length=16,
        json_schema_extra=_validated(
            _rule(
                "self.matches('^([1-9][0-9]?|100)%$|^[1-9][0-9]*(Mi|Gi|Ti)$')",
                'must be a whole number of Mi, Gi or Ti ("8Gi"), or a percentage of the GPU from "1%" to "100%"',
            )
        ),
    ),
]


def _in_order(smaller: str, larger: str) -> dict[str, str]:
    """Amounts can be compared with amounts and percentages with percentages; the rest depends on the GPU."""
    low, high = f"self.{smaller}", f"self.{larger}"
    both_given = f"has({low}) && has({high})"
    percentages = f"{low}.endsWith('%') && {high}.endsWith('%')"
    amounts = f"!{low}.endsWith('%') && !{high}.endsWith('%')"
    fewer_percent = f"int({low}.replace('%', '')) <= int({high}.replace('%', ''))"
    smaller_amount = f"quantity({low}).compareTo(quantity({high})) <= 0"
    return _rule(
        f"!({both_given}) || (!({percentages}) || {fewer_percent}) && (!({amounts}) || {smaller_amount})",
        f"{smaller} must not be more than {larger}",
        field_path=f".{smaller}",
    )


class Enforcement(StrEnum):
    """Whether a container is held to its share of the GPU's memory by the driver."""

    REQUIRED = "Required"
    """GPUs whose driver cannot do that are not offered in this way."""
    PREFERRED = "Preferred"
    """Where the driver can."""
    NONE = "None"
    """The scheduler counts, and nobody is stopped."""


class TimeSlicingMemory(ApiModel):
    model_config = ConfigDict(json_schema_extra=_validated(_in_order("min", "default")))

    default: Memory
    """What a claim gets that does not ask for an amount: an amount ("16Gi") or a part of the GPU ("25%")."""
    min: Memory = "1Mi"
    """The least that a claim gets."""
    enforcement: Enforcement = Enforcement.REQUIRED
    """Whether the driver holds containers to what they got: Required, Preferred (where it can) or None."""


class TimeSlicingOffer(ApiModel):
    """One GPU for several claims in turns. There is no isolation between them, except of memory where that is asked."""

    max_clients: Annotated[int, Field(ge=2, le=256)]
    """How many claims may hold the GPU at the same time."""
    interval: Interval = Interval.DEFAULT
    """How long a client may run before the next one gets the GPU: Default, Short, Medium or Long."""
    memory: TimeSlicingMemory | None = None
    """How the GPU's memory is divided among its claims. Absent: it is not, each may take all of it."""
    transparent: bool = False
    """Whether workloads that ask for a plain GPU (device class gpu.nvidia.com) get a share."""


class MpsMemory(ApiModel):
    model_config = ConfigDict(
        json_schema_extra=_validated(_in_order("min", "default"), _in_order("default", "max"), _in_order("min", "max"))
    )

    default: Memory
    """What a claim gets that does not ask for an amount: an amount ("8Gi") or a part of the GPU ("10%")."""
    min: Memory = "1Mi"
    """The least that a claim gets."""
    max: Memory | None = None
    """The most that a claim may ask for. Absent: all of the GPU's."""


class MpsThreads(ApiModel):
    model_config = ConfigDict(
        json_schema_extra=_validated(
            _rule("self.min <= self.default", "min must not be more than default", field_path=".min")
        )
    )

    default: Annotated[int, Field(ge=1, le=100)]
    """What a claim gets that does not ask for an amount, in percent of the GPU's multiprocessors."""
    min: Annotated[int, Field(ge=1, le=50)] = 1
    """The least that a claim gets, in percent."""


class MpsOffer(ApiModel):
    """One GPU for several claims at the same time, each with a part of memory and multiprocessors."""

    # What an MPS server lets in at most.
    max_clients: Annotated[int, Field(ge=2, le=60)]
    """How many claims may hold the GPU at the same time."""
    memory: MpsMemory
    """How the GPU's memory is divided among its claims."""
    threads: MpsThreads
    """How the GPU's multiprocessors are divided among its claims."""


# Without backslashes, which mean something else in CEL.
_MIG_PROFILE = "^[1-9][0-9]*g[.][1-9][0-9]*gb([+-][a-z]+([.][a-z]+)?)?$"


class MigOffer(ApiModel):
    """Parts of a GPU that are isolated by the hardware."""

    model_config = ConfigDict(
        json_schema_extra=_validated(
            _rule("has(self.profiles) != has(self.layout)", "give either profiles or layout"),
        )
    )

    profiles: Annotated[
        tuple[Annotated[str, Field(max_length=32, pattern=_MIG_PROFILE)], ...] | None,
        Field(min_length=1, max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = None
    """Kinds of MIG instances ("1g.10gb") that claims can ask for; they are cut when a claim comes."""
    layout: Annotated[
        dict[str, Annotated[int, Field(ge=1, le=16)]] | None,
        Field(
            min_length=1,
            max_length=16,
            json_schema_extra=_validated(
                _rule(f"self.all(profile, profile.matches('{_MIG_PROFILE}'))", 'must be names such as "1g.10gb"')
            ),
        ),
    ] = None
    """How many MIG instances of which kind the GPU is cut into now, to stay so: then this is the only offer."""


class Offers(ApiModel):
    exclusive: ExclusiveOffer | None = None
    """Offer whole GPUs (device class gpu.nvidia.com)."""
    time_slicing: TimeSlicingOffer | None = None
    """Offer shares of GPUs that take turns (device class timeslicing.gpu.nvidia.com)."""
    mps: MpsOffer | None = None
    """Offer shares of GPUs that compute at the same time (device class mps.gpu.nvidia.com)."""
    mig: MigOffer | None = None
    """Offer isolated parts of GPUs (device class mig.nvidia.com)."""


class Strategy(StrEnum):
    """What a claim's own GpuConfig may set a GPU to."""

    TIME_SLICING = "TimeSlicing"
    MPS = "MPS"


_SET = {"x-kubernetes-list-type": "set"}


class Allowance(ApiModel):
    gpu_config: Annotated[tuple[Strategy, ...] | None, Field(max_length=2, json_schema_extra=_SET)] = None
    """Strategies that a claim's own GpuConfig may name: TimeSlicing, MPS. Absent: both; empty: none."""
    intervals: Annotated[tuple[Interval, ...] | None, Field(max_length=4, json_schema_extra=_SET)] = None
    """Intervals that a claim's own GpuConfig may set. Absent: all of them; empty: none."""
    max_threads: Annotated[int, Field(ge=1, le=100)] | None = None
    """The most of a GPU's multiprocessors that one claim may get, in percent."""
    max_memory: (
        Annotated[
            str,
            _checked('an amount such as "20Gi"', "[1-9][0-9]*(Mi|Gi|Ti)"),
            Field(
                max_length=16,
                json_schema_extra=_validated(
                    _rule("self.matches('^[1-9][0-9]*(Mi|Gi|Ti)$')", 'must be a whole number of Mi, Gi or Ti ("20Gi")')
                ),
            ),
        ]
        | None
    ) = None
    """The most of a shared GPU's memory that one claim may get."""
    max_shares: Annotated[int, Field(ge=1, le=256)] | None = None
    """The most shares of a GPU that one claim may get."""


class Quota(ApiModel):
    """Devices that the claims of one namespace may ask for, by the way in which they are shared. Absent: any number."""

    exclusive: Annotated[int, Field(ge=0)] | None = None
    """Whole GPUs."""
    time_slicing: Annotated[int, Field(ge=0)] | None = None
    """Shares of GPUs that take turns."""
    mps: Annotated[int, Field(ge=0)] | None = None
    """Shares of GPUs that compute at the same time."""
    mig: Annotated[int, Field(ge=0)] | None = None
    """Isolated parts of GPUs."""


class Tenants(ApiModel):
    namespaces: LabelSelector = LabelSelector()
    """The namespaces whose claims may use these GPUs. Empty: all of them."""
    allow: Allowance = Allowance()
    """What a claim may ask for."""
    quota: Quota | None = None
    """How many devices each of the namespaces may ask for."""


# A name with a domain that is not Kubernetes' own, as the API server asks of extended resources.
_EXTENDED_RESOURCE = "^([a-z0-9]([a-z0-9-]*[a-z0-9])?[.])+[a-z0-9-]*[a-z0-9]/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$"
_ExtendedResource = Annotated[
    str,
    Field(
        max_length=190,
        json_schema_extra=_validated(
            _rule(
                f"self.matches('{_EXTENDED_RESOURCE}') && !self.split('/')[0].endsWith('kubernetes.io')"
                " && size(self.split('/')[1]) <= 63 && !self.startsWith('requests.')",
                'must be a name with a domain of yours ("example.com/gpu-shared")',
            )
        ),
    ),
]


class ExtendedResources(ApiModel):
    exclusive: _ExtendedResource | None = None
    """Of the class of whole GPUs."""
    time_slicing: _ExtendedResource | None = None
    """Of the class of shares of GPUs that take turns."""
    mps: _ExtendedResource | None = None
    """Of the class of shares of GPUs that compute at the same time."""
    mig: _ExtendedResource | None = None
    """Of the class of isolated parts of GPUs."""


class Classes(ApiModel):
    create: bool = True
    """Whether there are device classes for this policy's GPUs alone: <policy>-exclusive, -timeslicing, -mps, -mig."""
    extended_resources: ExtendedResources = ExtendedResources()
    """Names by which pods can ask for these classes as resources of a container, without a claim."""


class Disruption(StrEnum):
    """What becomes of those who hold a GPU in a way in which it is not offered any more."""

    WAIT_FOR_IDLE = "WaitForIdle"
    """They stay as long as they like, and nobody new joins them."""
    EVICT = "Evict"
    """Their pods are evicted, on a few nodes at a time."""
    NEVER = "Never"
    """The GPU goes on as it is, also for others, until nobody holds it."""


class RolloutMode(StrEnum):
    APPLY = "Apply"
    PLAN = "Plan"
    """What would be done is told in the status, and what was in force stays so."""


class Rollout(ApiModel):
    disruption: Disruption = Disruption.WAIT_FOR_IDLE
    """What becomes of running work that a change is in the way of: WaitForIdle, Evict or Never."""
    max_unavailable: CountOrPercentage = 1
    """Nodes on which work is evicted, or GPUs are cut anew, at the same time: a number, or a percentage of the nodes
    that the policy selects, rounded down, at least 1."""
    mode: RolloutMode = RolloutMode.APPLY
    """Apply, or Plan: then the status tells what would change, and nothing does."""
    paused: bool = False
    """Whether what is in force stays so for the time being, whatever this policy says."""


def _if_quota(rule: str) -> str:
    return f"!has(self.tenants) || !has(self.tenants.quota) || {rule}"


class SharingPolicySpec(ApiModel):
    model_config = ConfigDict(
        json_schema_extra=_validated(
            _rule(
                _if_quota(
                    "has(self.tenants.namespaces) && [has(self.tenants.namespaces.matchLabels) && "
                    "size(self.tenants.namespaces.matchLabels) > 0, has(self.tenants.namespaces.matchExpressions) && "
                    "size(self.tenants.namespaces.matchExpressions) > 0].exists(given, given)"
                ),
                "a quota belongs to namespaces: say in tenants.namespaces which",
                field_path=".tenants.quota",
            ),
            _rule(
                _if_quota("!has(self.classes) || self.classes.create"),
                "a quota counts claims by class: let classes.create be true",
                field_path=".tenants.quota",
            ),
        )
    )

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
                        "has(self.exclusive) || has(self.timeSlicing) || has(self.mps) || has(self.mig)",
                        "offer at least one of exclusive, timeSlicing, mps, mig; to offer nothing, delete the policy",
                        reason="FieldValueRequired",
                    ),
                    _rule(
                        "!has(self.exclusive) || !has(self.timeSlicing) || !self.timeSlicing.transparent",
                        "who asks for a plain GPU gets either a share or all of it: remove exclusive or transparent",
                        field_path=".timeSlicing.transparent",
                    ),
                    _rule(
                        "!has(self.mig) || !has(self.mig.layout) || "
                        "!(has(self.exclusive) || has(self.timeSlicing) || has(self.mps))",
                        "a GPU that is cut for good cannot be offered in another way: remove the other offers, or give "
                        "profiles instead of layout",
                        field_path=".mig.layout",
                    ),
                ]
            }
        ),
    ]
    """The ways in which each of these GPUs is offered, at the same time."""
    tenants: Tenants = Tenants()
    """Who may use them, and how much. Empty: everyone, as much as is offered."""
    classes: Classes = Classes()
    """Device classes that select the GPUs of this policy alone."""
    rollout: Rollout = Rollout()
    """How changes come into force."""


class NodeCount(ApiModel):
    selected: int
    """Nodes with GPUs that the policy selects."""
    ready: int
    """Those of them on which everything that the policy won is in force."""
    changing: int = 0
    """Those on which work is being evicted, or GPUs are being cut anew."""
    held_back: int = 0
    """Those that stay as they were until others have changed, or until their GPUs are idle."""
    failing: int = 0
    """Those with GPUs of this policy that cannot be used, or not in this way."""


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


class LagReason(StrEnum):
    """The weightiest first: a node is named with one reason."""

    FAILING = "Failing"
    """A GPU cannot be used, or cannot be made what the policy says."""
    HELD_BACK = "HeldBack"
    """Everything stays as it was until other nodes have changed (rollout.maxUnavailable)."""
    KEPT_UNTIL_IDLE = "KeptUntilIdle"
    """GPUs in use stay as they were (rollout.disruption: Never)."""
    NOT_ACTED = "NotActed"
    """The node's agent has not reported that it does as it is told."""
    EVICTING = "Evicting"
    """Pods that are in the way are being evicted."""
    BEING_CUT = "BeingCut"
    """GPUs are being cut anew, or reset."""
    IN_USE = "InUse"
    """Claims that are in the way stay as long as they like."""
    WITHDRAWING = "Withdrawing"
    """What was offered before is being withdrawn."""


class LaggingNode(ApiModel):
    node: str
    """Its name."""
    reason: LagReason
    """Why not everything that the policy won there is in force, in a word."""
    message: str
    """The same in a sentence."""


class Effect(StrEnum):
    """What a change of a GPU means to those who hold it."""

    NONE = "None"
    """Nobody notices."""
    CLOSES_FIRST = "ClosesFirst"
    """Nobody holds it. Nobody new gets it until what was offered to others has been withdrawn."""
    CUT_ANEW = "CutAnew"
    """Nobody is in the way. It is cut into other MIG instances, or its MIG mode is switched, which resets it."""
    WAITS = "Waits"
    """Claims are in the way. They stay as long as they like, and nobody new joins them."""
    EVICTS = "Evicts"
    """Claims are in the way, and their pods are evicted."""
    KEPT_UNTIL_IDLE = "KeptUntilIdle"
    """Claims are in the way, so it stays as it is, also for new ones."""


class PlannedGpu(ApiModel):
    uuid: str
    """The GPU."""
    before: Annotated[str | None, Field(alias="from")] = None
    """The policy that has it now. Absent: none."""
    to: str | None = None
    """The policy that would get it. Absent: none."""
    effect: Effect
    """What that means to those who hold it."""
    claims: tuple[str, ...] = ()
    """Claims in the way, by namespace and name; not more than ten."""


class PlannedNode(ApiModel):
    node: str
    """Its name."""
    gpus: tuple[PlannedGpu, ...]
    """Those that would change."""


class PlanTotals(ApiModel):
    nodes: int = 0
    """Nodes on which anything would change."""
    gpus: int = 0
    """GPUs that would change."""
    claims: int = 0
    """Claims in the way."""
    evicted: int = 0
    """Those of them whose pods would be evicted."""
    cut_anew: int = 0
    """GPUs that would be cut anew or reset at once."""


class Plan(ApiModel):
    """What would be done if rollout.mode were Apply."""

    totals: PlanTotals
    """On all nodes."""
    nodes: tuple[PlannedNode, ...] = ()
    """The first of them by name."""


class LastReady(ApiModel):
    generation: int
    """The policy's generation at that time."""
    spec: Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})]
    """What was wholly in force."""


class SharingPolicyStatus(ApiModel):
    observed_generation: int | None = None
    """The generation of the spec that this status speaks of."""
    conditions: Conditions = ()
    """Accepted, Ready, Progressing, Conflicted and Degraded."""
    nodes: NodeCount | None = None
    """How many nodes it selects, and on how many it is in force."""
    gpus: GpuCount | None = None
    """How many GPUs it won and lost."""
    clients: ClientCount | None = None
    """How many claims use its GPUs."""
    lagging: tuple[LaggingNode, ...] = ()
    """Nodes on which not everything is in force; the first ten by name."""
    plan: Plan | None = None
    """What would change, where rollout.mode is Plan."""
    last_ready: LastReady | None = None
    """The last spec that was in force on every node, to go back to."""


class SharingPolicy(ApiModel):
    """Which GPUs are shared, in which ways, by whom and how much."""

    metadata: ObjectMeta
    spec: SharingPolicySpec
    """What the platform team wants."""
    status: SharingPolicyStatus = SharingPolicyStatus()
    """What has become of it, written by the operator."""


class UnreadablePolicy(SharingPolicy):
    """One of which this program understands no more than that it is there: it was written for another version."""

    @classmethod
    def of(cls, metadata: Any) -> Self:
        return cls(metadata=metadata, spec=SharingPolicySpec(offers=Offers()))


# ----------------------------------------------------------------------------------------------------- NodeSharing


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


class Verdict(StrEnum):
    ALLOWED = "Allowed"
    DENIED = "Denied"


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


class ClaimSharing(Numerous):
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


class NodeSharingSpec(Numerous):
    """Written by the operator."""

    # Limited so that the API server can tell what the rules in it may cost.
    gpus: Annotated[tuple[GpuSharing, ...], Field(max_length=64, json_schema_extra=_BY_UUID)] = ()
    """The GPUs that the agent reported, and how each is to be shared."""
    claims: Annotated[tuple[ClaimSharing, ...], Field(json_schema_extra=_BY_UID)] = ()
    """The claims that hold devices of this node, and the settings that they get."""


# Both are calculated with; one that could not be would stop the decisions for all.
_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?Z$"
_MEMORY_OF_A_GPU = "^[1-9][0-9]*(Mi|Gi|Ti)$"


class PublishedDevice(Numerous):
    device: str
    """A device name in the node's ResourceSlices."""
    closing_since: Annotated[str | None, Field(max_length=32, pattern=_MOMENT)] = None
    """Since when nobody new gets it, because it is to be withdrawn."""


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


@lru_cache(4096)
def _attribute(kind: str, value: Any) -> Any:
    return {kind: value}


def _shared(attributes: dict[str, DeviceAttribute]) -> dict[str, DeviceAttribute]:
    """GPUs of a model have most attributes in common: a fleet keeps them once."""
    return {
        intern(name): _attribute(*next(iter(attribute.items()))) if len(attribute) == 1 else attribute
        for name, attribute in attributes.items()
    }


class MigInstanceStatus(Numerous):
    profile: str
    """Its kind, as in 1g.10gb."""
    start: int
    """The first of its memory slices."""
    uuid: str | None = None
    """The MIG device that programs see. Absent: there is none, or there are several."""


class MigMode(ApiModel):
    enabled: bool
    """At the moment."""
    found: bool
    """Before the agent switched it."""


class MemoryWallSupport(Numerous):
    supported: bool
    """Whether the driver can hold each container to a part of the GPU's memory."""
    reason: str | None = None
    """What is in the way."""


UNTOLD: Final = MemoryWallSupport(supported=False, reason="the node's agent has not said whether it can be done")


class GpuStatus(Numerous):
    uuid: str
    """The GPU, for as long as the board lives."""
    slot: int
    """The N of gpu-N in device names; it stays with the GPU."""
    minor: int
    """The N of /dev/nvidiaN at the moment."""
    model: str
    """The product name."""
    memory: Annotated[str, Field(max_length=16, pattern=_MEMORY_OF_A_GPU)]
    """Total memory, as a quantity."""
    mig_profiles: tuple[str, ...] = ()
    """The kinds of MIG instances that it can be cut into."""
    instances: tuple[MigInstanceStatus, ...] = ()
    """The MIG instances that it is cut into."""
    mig_mode: MigMode | None = None
    """Whether it can be cut at the moment. Absent: it never can."""
    attributes: Annotated[dict[str, DeviceAttribute], AfterValidator(_shared), Field(default_factory=dict)]
    """What selectors see, as on the devices in ResourceSlices."""
    policy: PolicyReference | None = None
    """The policy whose offers are in force. Absent: the GPU is offered as it is found."""
    time_slice: Interval | None = None
    """The time slice that is set. Absent: the GPU has no such setting."""
    compute_mode: Literal["Default", "ExclusiveThread", "Prohibited", "ExclusiveProcess"] | None = None
    """The compute mode that is set."""
    memory_wall: MemoryWallSupport = UNTOLD
    """Whether claims of one GPU can be kept to their own memory."""
    published: tuple[PublishedDevice, ...] = ()
    """The devices that the scheduler is offered."""
    conditions: Conditions = ()
    """What is wrong with this GPU, if anything is."""


class MigProfilePlaces(ApiModel):
    """A kind of MIG instance: what it takes of the GPU, and where."""

    name: str
    """As in 1g.10gb."""
    id: int
    """The number that the driver knows it by."""
    slices: int
    """Of the GPU's computing."""
    memory: int
    """In MiB."""
    size: int
    """How many of the GPU's memory slices it takes."""
    starts: tuple[int, ...]
    """The memory slices that it can begin at."""
    multiprocessors: int = 0
    """Multiprocessors that it takes."""
    copy_engines: int = 0
    """Copy engines."""
    decoders: int = 0
    """Video decoders."""
    encoders: int = 0
    """Video encoders."""
    jpeg_engines: int = 0
    """JPEG engines."""
    ofa_engines: int = 0
    """Optical flow engines."""


class GpuModel(ApiModel):
    """A model of GPU that can be cut."""

    model: str
    """The product name."""
    switch_resets: bool
    """Whether a change of MIG mode resets the GPU."""
    profiles: Annotated[
        tuple[MigProfilePlaces, ...],
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}),
    ]
    """The kinds of MIG instances that it can be cut into."""


class ClaimStatus(Numerous):
    uid: str
    """The ResourceClaim."""
    claim: str
    """Its namespace and name, for people."""
    settings: tuple[DeviceSettings, ...] = ()
    """What was applied for it."""


class NodeSharingStatus(Numerous):
    """Written by the node's agent."""

    observed_generation: int | None = None
    """The generation of the spec that the agent acts on."""
    boot_id: Annotated[str | None, Field(alias="bootID")] = None
    """The boot of the node that this was seen in."""
    models: Annotated[
        tuple[GpuModel, ...],
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["model"]}),
    ] = ()
    """The models of its GPUs, as far as they can be cut."""
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

    def made_of(self, spec: NodeSharingSpec, status: NodeSharingStatus) -> Self:
        """The same, of these objects where they are equal to its own: who knows them sees at a glance what is new."""
        known: dict[str, Any] = {}
        if self.spec == spec:
            known["spec"] = spec
        if self.status == status:
            known["status"] = status
        return self.model_copy(update=known)
