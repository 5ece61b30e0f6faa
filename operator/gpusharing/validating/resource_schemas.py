"""The fields of ResourceClaim, ResourceClaimTemplate and DeviceClass in resource.k8s.io/v1, with their limits."""

from typing import Any, Final

from gpusharing.validating import formats
from gpusharing.validating.structure import CHECK, Check, Schema, any_of, shown


def _object(properties: dict[str, Schema], *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": required}


def _list(items: Schema, most: int | None = None, *, keys: tuple[str, ...] = (), unique: bool = False) -> Schema:
    schema: dict[str, Any] = {"type": "array", "items": items}
    if most is not None:
        schema["maxItems"] = most
    if keys:
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
    elif unique:
        schema["x-kubernetes-list-type"] = "set"
    return schema


def _text(check: Check | None = None) -> Schema:
    return {"type": "string"} if check is None else {"type": "string", CHECK: _unless_empty(check)}


def _unless_empty(check: Check) -> Check:
    """To Kubernetes, an empty text is an absent one; where one is needed, a rule says so."""
    return lambda value: check(value) if value else None


def _choice(*values: str) -> Schema:
    # An empty one is an absent one.
    return {"type": "string", CHECK: _unless_empty(lambda value: _not_among(value, values))}


def _not_among(value: str, values: tuple[str, ...]) -> str | None:
    return None if value in values else f"is {shown(value)}: must be {any_of(values)}"


def _texts(check: Check | None = None) -> Schema:
    return {"type": "object", "additionalProperties": _text() if check is None else {"type": "string", CHECK: check}}


_WHOLE: Final[Schema] = {"type": "integer"}
_ANY: Final[Schema] = {}
_TEXT: Final = _text()

_SELECTORS: Final = _list(_object({"cel": _object({"expression": _TEXT})}), 32)
_TOLERATIONS: Final = _list(
    _object(
        {
            "key": _text(formats.label_key),
            "operator": _choice("Equal", "Exists"),
            "value": _TEXT,
            "effect": _choice("None", "NoSchedule", "NoExecute"),
            "tolerationSeconds": _WHOLE,
        }
    )
)
_CAPACITY: Final = _object({"requests": {"type": "object", "additionalProperties": {CHECK: formats.amount}}})
_WANTED: Final[dict[str, Schema]] = {
    "deviceClassName": _text(formats.dns_subdomain),
    "selectors": _SELECTORS,
    "allocationMode": _choice("ExactCount", "All"),
    "count": _WHOLE,
    "tolerations": _TOLERATIONS,
    "capacity": _CAPACITY,
    # An alpha feature: where it is off, the field is dropped.
    "derivedAttributes": _list(_object({"name": _TEXT, "expression": _TEXT}), 32),
}
_NAME: Final = _text(formats.dns_label)
_OPAQUE: Final = _object({"driver": _text(formats.driver_name), "parameters": _ANY})
_REQUESTS: Final = _list(
    _object(
        {
            "name": _NAME,
            "exactly": _object({**_WANTED, "adminAccess": {"type": "boolean"}}),
            "firstAvailable": _list(_object({"name": _NAME, **_WANTED}), 8, keys=("name",)),
        }
    ),
    32,
    keys=("name",),
)
_NAMED: Final = _list(_TEXT, 32, unique=True)
_CLAIM_SPEC: Final = _object(
    {
        "devices": _object(
            {
                "requests": _REQUESTS,
                "constraints": _list(
                    _object(
                        {
                            "requests": _NAMED,
                            "matchAttribute": _text(formats.fully_qualified_name),
                            "distinctAttribute": _text(formats.fully_qualified_name),
                        }
                    ),
                    32,
                ),
                "config": _list(_object({"requests": _NAMED, "opaque": _OPAQUE}), 32),
            }
        )
    }
)

METADATA: Final = _object(
    {
        "name": _text(formats.dns_subdomain),
        "generateName": _TEXT,
        "namespace": _text(formats.dns_label),
        "labels": _texts(formats.label_value),
        "annotations": _texts(),
        "finalizers": _list(_TEXT),
        "ownerReferences": _list(
            _object(
                {
                    "apiVersion": _TEXT,
                    "kind": _TEXT,
                    "name": _TEXT,
                    "uid": _TEXT,
                    "controller": {"type": "boolean"},
                    "blockOwnerDeletion": {"type": "boolean"},
                }
            )
        ),
        # The API server's own: they are in what `kubectl get -o yaml` prints.
        "uid": _TEXT,
        "resourceVersion": _TEXT,
        "generation": _WHOLE,
        "creationTimestamp": _TEXT,
        "deletionTimestamp": _TEXT,
        "deletionGracePeriodSeconds": _WHOLE,
        "selfLink": _TEXT,
        "managedFields": _list(_ANY),
    }
)


def _kind(spec: Schema, **more: Schema) -> Schema:
    return _object({"apiVersion": _TEXT, "kind": _TEXT, "metadata": METADATA, "spec": spec, **more}, "spec")


SCHEMAS: Final[dict[str, Schema]] = {
    # What a manifest says of the status is dropped.
    "ResourceClaim": _kind(_CLAIM_SPEC, status={"type": "object"}),
    "ResourceClaimTemplate": _kind(_object({"metadata": METADATA, "spec": _CLAIM_SPEC}, "spec")),
    "DeviceClass": _kind(
        _object(
            {
                "selectors": _SELECTORS,
                "config": _list(_object({"opaque": _OPAQUE}), 32),
                "extendedResourceName": _text(formats.extended_resource),
            }
        )
    ),
}
