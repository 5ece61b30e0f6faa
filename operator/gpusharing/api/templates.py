"""ResourceClaimTemplates as the operator keeps them: whose they are, and a digest of what they say.

People may write much into templates, and many of them.
"""

from dataclasses import field
from hashlib import blake2b
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, TypeAdapter
from pydantic.dataclasses import dataclass

from gpusharing.api.dra import Toleration
from gpusharing.api.meta import (
    FROZEN_CONFIG,
    EmptyDict,
    EmptyTuple,
    OwnedMeta,
    OwnerReference,
    OwnerReferences,
    StringMap,
)
from gpusharing.api.names import POLICY_LABEL

_MOST_POLICIES: Final = 8
_LONGEST_NAME: Final = 253


def _policy_label(value: Any) -> Any:
    labels = value if isinstance(value, dict) else {}
    return {key: label for key, label in labels.items() if key == POLICY_LABEL and isinstance(label, str)}


def _policies(owners: tuple[OwnerReference, ...]) -> tuple[OwnerReference, ...]:
    found = [
        owner
        for owner in owners
        if owner.kind == "SharingPolicy" and max(len(owner.name), len(owner.uid)) <= _LONGEST_NAME
    ]
    return tuple(found[:_MOST_POLICIES])


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class TemplateMeta(OwnedMeta):
    """Of the labels and owners, only what tells whose it is."""

    labels: Annotated[StringMap, BeforeValidator(_policy_label)] = field(default_factory=dict)
    owner_references: Annotated[OwnerReferences, AfterValidator(_policies)] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class _Cel:
    expression: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class _Selector:
    cel: _Cel = _Cel()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class _Capacity:
    requests: Annotated[dict[str, str], EmptyDict] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class _Exactly:
    device_class_name: str = ""
    selectors: Annotated[tuple[_Selector, ...], EmptyTuple] = ()
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool = False
    tolerations: Annotated[tuple[Toleration, ...], EmptyTuple] = ()
    capacity: _Capacity = _Capacity()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class _TemplateRequest:
    name: str = ""
    exactly: _Exactly | None = None
    first_available: Annotated[bool, BeforeValidator(bool)] = False


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class _TemplateDevices:
    requests: Annotated[tuple[_TemplateRequest, ...], EmptyTuple] = ()
    constraints: Annotated[bool, BeforeValidator(bool)] = False
    config: Annotated[bool, BeforeValidator(bool)] = False


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class _TemplateClaimSpec:
    devices: _TemplateDevices = _TemplateDevices()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class _TemplateSpec:
    """Of a template, in one form: with the defaults of Kubernetes, and without fields of later versions, which may have
    defaults as well. Of what we never write, only whether it is there."""

    metadata: Annotated[bool, BeforeValidator(bool)] = False
    spec: _TemplateClaimSpec = _TemplateClaimSpec()


_TEMPLATE_SPEC: Final = TypeAdapter(_TemplateSpec)


def template_digest(spec: Any) -> str:
    """The same for two specs of templates that say the same."""
    understood = repr(_TEMPLATE_SPEC.validate_python(spec))
    return blake2b(understood.encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True, config=FROZEN_CONFIG)
class ResourceClaimTemplate:
    metadata: TemplateMeta
    spec: Annotated[str, BeforeValidator(template_digest)]
    """Its digest."""
