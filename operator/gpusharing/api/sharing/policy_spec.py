"""The spec of a SharingPolicy: which GPUs are shared, and how."""

from typing import Annotated

from pydantic import ConfigDict, Field

from gpusharing.api.base import ApiModel
from gpusharing.api.meta import LabelSelector
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.amounts import CountOrPercentage
from gpusharing.api.sharing.classes import Classes
from gpusharing.api.sharing.modes import FIELDS
from gpusharing.api.sharing.offers import Offers
from gpusharing.api.sharing.rollout import Rollout
from gpusharing.api.sharing.rules import rule, validated
from gpusharing.api.sharing.tenants import Tenants


class CelSelector(ApiModel):
    expression: Annotated[str, Field(min_length=1, max_length=10240)]
    """A CEL expression over `device`, with the rules of a DeviceClass selector. At most 10,240 characters.
    Example: device.attributes["gpu.nvidia.com"].architecture == "Hopper"."""


class DeviceSelector(ApiModel):
    cel: CelSelector
    """The CEL expression that a GPU must match."""


class GpuSelection(ApiModel):
    selectors: Annotated[tuple[DeviceSelector, ...], Field(max_length=32)] = ()
    """Selects GPUs by their attributes. A GPU must match all selectors. Each selector sees the whole GPU, with the
    attributes that the NodeSharing shows in status.gpus[].attributes. Default: every GPU matches."""
    max_per_node: CountOrPercentage | None = None
    """The most GPUs of one node that this policy takes: a number (2) or a percentage of the GPUs that match ("50%",
    rounded down, at least 1). Default: all."""


_HAS_TENANTS = (
    "self.?tenants.?namespaces.?matchLabels.orValue({}).size() > 0 || "
    "self.?tenants.?namespaces.?matchExpressions.orValue([]).size() > 0"
)
_CREATES_CLASSES = "!has(self.classes) || self.classes.create"


def _required(by: str, given: str) -> tuple[dict[str, str], ...]:
    """What is made in the namespaces of tenants needs some, and is about classes."""
    path = f".{by.partition(':')[0]}"
    return (
        rule(f"!({given}) || {_HAS_TENANTS}", f"{by} requires tenants.namespaces", field_path=path),
        rule(f"!({given}) || {_CREATES_CLASSES}", f"{by} requires classes.create: true", field_path=path),
    )


def _of_variants(holds: str, message: str) -> dict[str, str]:
    # Not by optional values: of these the API server does not know how long they are.
    variants = "self.classes.templateVariants"
    absent = f"!has(self.classes) || !has({variants})"
    return rule(f"{absent} || {variants}.all(v, {holds})", message, field_path=".classes.templateVariants")


_OFFER_OF_VARIANT = " : ".join(
    [
        *(f"v.mode == '{mode}' ? has(self.offers.{FIELDS[mode]})" for mode in Sharing if mode is not Sharing.MIG),
        f"has(self.offers.{FIELDS[Sharing.MIG]})",
    ]
)
_ALLOW = "self.?tenants.?allow"


class SharingPolicySpec(ApiModel):
    model_config = ConfigDict(
        json_schema_extra=validated(
            *_required("tenants.quota", "has(self.tenants) && has(self.tenants.quota)"),
            *_required("classes.templates: true", "has(self.classes) && self.classes.templates"),
            _of_variants(_OFFER_OF_VARIANT, "mode must be one that the policy offers (spec.offers)"),
            _of_variants(
                "!has(v.profile) || !has(self.offers.mig) || "
                "has(self.offers.mig.profiles) && v.profile in self.offers.mig.profiles || "
                "has(self.offers.mig.layout) && v.profile in self.offers.mig.layout",
                "profile must be one of offers.mig",
            ),
            _of_variants(
                "!has(v.shares) || v.shares <= (v.mode == 'MPS' ? self.offers.?mps.?maxClients.orValue(256) : "
                "self.offers.?timeSlicing.?maxClients.orValue(256))",
                "shares must be less than or equal to maxClients of the offer",
            ),
            _of_variants(
                f"v.?shares.orValue(1) <= {_ALLOW}.?maxShares.orValue(256) && "
                f"v.?threads.orValue(1) <= {_ALLOW}.?maxThreads.orValue(100) && "
                f"(!has(v.memory) || v.mode == 'Exclusive' || !{_ALLOW}.?maxMemory.hasValue() || "
                "quantity(v.memory).compareTo(quantity(self.tenants.allow.maxMemory)) <= 0)",
                "memory, threads and shares must not exceed tenants.allow",
            ),
        )
    )

    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] = 0
    """Decides which policy wins a GPU that several policies select: the highest priority wins. If priorities are equal,
    the name that sorts first wins. From -1000000 to 1000000. Default: 0."""
    nodes: LabelSelector = LabelSelector()
    """Selects nodes by their labels. Default: every node with GPUs. Example: {matchLabels: {pool: inference}}."""
    gpus: GpuSelection = GpuSelection()
    """Selects GPUs on these nodes. Default: all GPUs."""
    offers: Annotated[
        Offers,
        Field(
            json_schema_extra={
                "x-kubernetes-validations": [
                    rule(
                        "has(self.exclusive) || has(self.timeSlicing) || has(self.mps) || has(self.mig)",
                        "must set exclusive, timeSlicing, mps or mig; to offer nothing, delete the policy",
                        reason="FieldValueRequired",
                    ),
                    rule(
                        "!has(self.exclusive) || !has(self.timeSlicing) || !self.timeSlicing.transparent",
                        "exclusive and timeSlicing.transparent are mutually exclusive: remove one",
                        field_path=".timeSlicing.transparent",
                    ),
                    rule(
                        "!has(self.mig) || !has(self.mig.layout) || "
                        "!(has(self.exclusive) || has(self.timeSlicing) || has(self.mps))",
                        "mig.layout cannot be combined with other offers: remove the other offers, or set mig.profiles "
                        "instead of mig.layout",
                        field_path=".mig.layout",
                    ),
                ]
            }
        ),
    ]
    """The modes in which each selected GPU is offered. Set one or more. A GPU is offered in all of them at the same
    time, and the first claim decides the mode until the GPU is idle again. Example: {exclusive: {}, timeSlicing:
    {maxClients: 4}}."""
    tenants: Tenants = Tenants()
    """Which namespaces may use these GPUs, and how much. Default: all namespaces, without limits."""
    classes: Classes = Classes()
    """Device classes that the operator creates for the GPUs of this policy, and templates of claims for them."""
    rollout: Rollout = Rollout()
    """How a change of this policy is applied to GPUs that are in use."""
