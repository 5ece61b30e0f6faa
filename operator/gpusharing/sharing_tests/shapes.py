"""Which objects a test uses, and what of them has to have a shape that is known."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpusharing.core.quantities import billionths
from gpusharing.validating import kinds, objects, structure
from gpusharing.validating.kinds import pod_spec
from gpusharing.validating.problems import Problem
from gpusharing.validating.structure import Schema

APPLIED: Final = ("SharingPolicy", "Namespace", "DeviceClass")
"""Kinds that `policies` takes from a manifest."""
_OTHERS: Final = ("ResourceClaim", "ResourceClaimTemplate")


def is_used(value: Any) -> bool:
    match value:
        case {"apiVersion": str(), "kind": str(kind), "metadata": {"name": str()}}:
            return kind in APPLIED or kind in _OTHERS or pod_spec(value) is not None
        case _:
            return False


def problems(value: Any, *, minor: int) -> Iterator[Problem]:
    """Of an object that is used."""
    api_version, kind = value["apiVersion"], value["kind"]
    if gone := kinds.problem(api_version, kind):
        yield gone
    elif kinds.is_checked(api_version, kind):
        yield from objects.problems(value, minor=minor)
    else:
        yield from structure.problems(_NAMESPACE if kind == "Namespace" else _MAKER, value)
        if (path := pod_spec(value)) is not None:
            spec: Any = value
            for part in path:
                spec = spec[part]
            yield from structure.problems(_POD_SPEC, spec, path)


def _mapping(**properties: Schema) -> Schema:
    return {"type": "object", "nullable": True, "x-kubernetes-preserve-unknown-fields": True, "properties": properties}


def _list(items: Schema) -> Schema:
    return {"type": "array", "nullable": True, "items": items}


def _amount(value: Any) -> str | None:
    try:
        billionths(str(value))
    except ValueError:
        return f"is {structure.shown(value)}: must be an amount"
    return None


def _no_node(_: Any) -> str:
    return "is set: the scheduler places no such pod; to expect a node, set expect.node"


_TEXT: Final[Schema] = {"type": "string", "nullable": True}
_NUMBER: Final[Schema] = {"type": "integer", "minimum": 0, "nullable": True}
_TEXTS: Final[Schema] = {"type": "object", "nullable": True, "additionalProperties": {"type": "string"}}
_AMOUNTS: Final[Schema] = {
    "type": "object",
    "nullable": True,
    "additionalProperties": {"x-kubernetes-int-or-string": True, structure.CHECK: _amount},
}
_METADATA: Final = _mapping(namespace=_TEXT, labels=_TEXTS, annotations=_TEXTS)
_NAMESPACE: Final = _mapping(metadata=_METADATA)
_TEMPLATE: Final = _mapping(metadata=_METADATA)
_MAKER: Final = _mapping(metadata=_METADATA, spec=_mapping(replicas=_NUMBER, parallelism=_NUMBER, template=_TEMPLATE))
_CONTAINER: Final = _mapping(resources=_mapping(limits=_AMOUNTS, requests=_AMOUNTS), restartPolicy=_TEXT)
_TERM: Final = _mapping(key=_TEXT, operator=_TEXT, values=_list({"type": "string"}))
_TERMS: Final = _mapping(nodeSelectorTerms=_list(_mapping(matchExpressions=_list(_TERM), matchFields=_list(_TERM))))
_NAMED: Final[Mapping[str, Any]] = {**_mapping(name={"type": "string"}), "required": ["name"], "nullable": False}
_CLAIM: Final[Mapping[str, Any]] = {
    **_mapping(name={"type": "string"}, resourceClaimName=_TEXT, resourceClaimTemplateName=_TEXT),
    "required": ["name"],
    "nullable": False,
}
_POD_SPEC: Final = _mapping(
    containers=_list({**_CONTAINER, "nullable": False}),
    initContainers=_list({**_CONTAINER, "nullable": False}),
    resourceClaims=_list(_CLAIM),
    schedulingGates=_list(_NAMED),
    nodeSelector=_TEXTS,
    tolerations=_list({**_mapping(key=_TEXT, operator=_TEXT, value=_TEXT, effect=_TEXT), "nullable": False}),
    affinity=_mapping(nodeAffinity=_mapping(requiredDuringSchedulingIgnoredDuringExecution=_TERMS)),
    nodeName={"type": "string", structure.CHECK: _no_node},
)
