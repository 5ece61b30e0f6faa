"""What a platform team wants."""

from typing import Annotated

from pydantic import ConfigDict, Field

from gpusharing.api.base import ApiModel
from gpusharing.api.meta import LabelSelector
from gpusharing.api.sharing.amounts import CountOrPercentage
from gpusharing.api.sharing.classes import Classes
from gpusharing.api.sharing.offers import Offers
from gpusharing.api.sharing.rollout import Rollout
from gpusharing.api.sharing.rules import rule, validated
from gpusharing.api.sharing.tenants import Tenants


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


def _if_quota(holds: str) -> str:
    return f"!has(self.tenants) || !has(self.tenants.quota) || {holds}"


class SharingPolicySpec(ApiModel):
    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                _if_quota(
                    "has(self.tenants.namespaces) && [has(self.tenants.namespaces.matchLabels) && "
                    "size(self.tenants.namespaces.matchLabels) > 0, has(self.tenants.namespaces.matchExpressions) && "
                    "size(self.tenants.namespaces.matchExpressions) > 0].exists(given, given)"
                ),
                "a quota belongs to namespaces: say in tenants.namespaces which",
                field_path=".tenants.quota",
            ),
            rule(
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
                    rule(
                        "has(self.exclusive) || has(self.timeSlicing) || has(self.mps) || has(self.mig)",
                        "offer at least one of exclusive, timeSlicing, mps, mig; to offer nothing, delete the policy",
                        reason="FieldValueRequired",
                    ),
                    rule(
                        "!has(self.exclusive) || !has(self.timeSlicing) || !self.timeSlicing.transparent",
                        "who asks for a plain GPU gets either a share or all of it: remove exclusive or transparent",
                        field_path=".timeSlicing.transparent",
                    ),
                    rule(
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
