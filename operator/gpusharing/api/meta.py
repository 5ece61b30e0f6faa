"""The parts of metav1 that we read, as frozen partial types: what is not named here is ignored."""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from sys import intern
from typing import Annotated, Any, Final, Literal

import pydantic
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass

from gpusharing.api.base import ApiModel, keyed_by
from gpusharing.api.text import Message

FROZEN_CONFIG = pydantic.ConfigDict(
    extra="ignore", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, defer_build=True
)

# An absent list or map, and one that is null as Go clients write it, are the same thing.
EmptyTuple = pydantic.BeforeValidator(lambda value: () if value is None else value)
EmptyDict = pydantic.BeforeValidator(lambda value: {} if value is None else value)
# Of names that thousands of objects have in common, there is one in memory. Never of what tenants choose: Python 3.12
# does not free it.
Common = Annotated[str, pydantic.AfterValidator(intern)]
Strings = Annotated[tuple[str, ...], EmptyTuple]
StringMap = Annotated[dict[Common, str], EmptyDict]

_MOST_LABELS: Final = 256
"""Of a namespace. Nobody has so many for a good reason, and guards may not read more of them."""


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class OwnerReference:
    api_version: Common = ""
    kind: Common = ""
    name: str = ""
    uid: str = ""


OwnerReferences = Annotated[tuple[OwnerReference, ...], EmptyTuple]


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class ObjectMeta:
    """What is kept of the metadata of any object. Kinds of which more is used have a type of their own."""

    name: str
    namespace: Common = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class LabelledMeta(ObjectMeta):
    labels: StringMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class OwnedMeta(LabelledMeta):
    """Of what may be made for a policy."""

    owner_references: OwnerReferences = ()


Key = tuple[str, str]
"""Namespace and name."""


def metadata_of(item: Any) -> ObjectMeta:
    metadata: ObjectMeta = item.metadata
    return metadata


def key_of(item: Any) -> Key:
    metadata = metadata_of(item)
    return metadata.namespace, metadata.name


def _labels_if_few(value: Any) -> Any:
    return None if isinstance(value, dict) and len(value) > _MOST_LABELS else value


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class NamespaceMeta(ObjectMeta):
    labels: Annotated[dict[Common, str] | None, pydantic.BeforeValidator(_labels_if_few)] = field(default_factory=dict)
    """None: there are so many that nobody can be sure whose tenant it is."""


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class WholeMeta(ObjectMeta):
    """Of what is replaced as a whole."""

    labels: StringMap = field(default_factory=dict)
    annotations: StringMap = field(default_factory=dict)
    finalizers: Strings = ()
    owner_references: Annotated[tuple[dict[str, Any], ...], EmptyTuple] = ()

    def for_update(self) -> dict[str, Any]:
        """What a plain update must send, so that it takes nothing away that others put there."""
        return {
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
            "labels": dict(self.labels),
            "annotations": dict(self.annotations),
            "finalizers": list(self.finalizers),
            "ownerReferences": [dict(reference) for reference in self.owner_references],
        }


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class Identity:
    """Which object it is, and in which version."""

    name: str
    namespace: str = ""
    uid: str
    resource_version: str

    @property
    def display_name(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class PartialObjectMetadata:
    """An object of any kind, without what it says."""

    metadata: Identity


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ApiModel):
    """A metav1.Condition."""

    type: Annotated[str, pydantic.Field(max_length=316)]
    """The type of the condition, such as Ready."""
    status: ConditionStatus
    """The status of the condition: True, False or Unknown."""
    reason: Annotated[str, pydantic.Field(min_length=1, max_length=1024)]
    """Why the condition has this status, as one word."""
    message: Message = ""
    """Why the condition has this status, as a sentence with the remedy."""
    observed_generation: int | None = None
    """The generation of the object that this condition describes."""
    last_transition_time: Annotated[str, pydantic.Field(json_schema_extra={"format": "date-time"})]
    """When the status of the condition last changed."""


Conditions = Annotated[tuple[Condition, ...], pydantic.Field(max_length=64, json_schema_extra=keyed_by("type"))]


class LabelSelectorRequirement(ApiModel):
    model_config = pydantic.ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",
                    "message": "operators In and NotIn require values; Exists and DoesNotExist must not have values",
                    "reason": "FieldValueInvalid",
                }
            ]
        }
    )

    key: Annotated[str, pydantic.Field(min_length=1, max_length=317)]
    """The label key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """In and NotIn compare the label with `values`. Exists and DoesNotExist only check that the label is there."""
    values: Annotated[tuple[Annotated[str, pydantic.Field(max_length=63)], ...], pydantic.Field(max_length=64)] = ()
    """The values to compare with. Required for In and NotIn."""


class LabelSelector(ApiModel):
    """metav1.LabelSelector: all requirements must match. An empty selector matches everything."""

    match_labels: Annotated[
        dict[Annotated[str, pydantic.Field(max_length=317)], Annotated[str, pydantic.Field(max_length=63)]],
        pydantic.Field(
            max_length=64,
            json_schema_extra={
                "x-kubernetes-validations": [
                    {"rule": "self.all(key, size(key) <= 317)", "message": "keys have at most 317 characters"}
                ]
            },
        ),
    ] = pydantic.Field(default_factory=dict)
    """Labels that must have exactly these values."""
    match_expressions: Annotated[tuple[LabelSelectorRequirement, ...], pydantic.Field(max_length=32)] = ()
    """Requirements that must all match."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            _requirement_holds(requirement, labels) for requirement in self.match_expressions
        )


def _requirement_holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
    match requirement.operator:
        case "In":
            return labels.get(requirement.key) in requirement.values
        case "NotIn":
            # As Kubernetes has it: an object without the label is not in the set.
            return requirement.key not in labels or labels[requirement.key] not in requirement.values
        case "Exists":
            return requirement.key in labels
        case "DoesNotExist":
            return requirement.key not in labels
