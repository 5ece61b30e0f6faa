"""Which nodes devices are for: v1.NodeSelector, as the scheduler reads it."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpusharing.api.dra import Node


def is_for(node: Node, where: Mapping[str, Any]) -> bool:
    """`where`: a ResourceSlice's spec, or a device of a slice with perDeviceNodeSelection."""
    if where.get("nodeName"):
        return bool(where["nodeName"] == node.metadata.name)
    return bool(where.get("allNodes")) or ("nodeSelector" in where and matches(where["nodeSelector"], node))


def matches(selector: Mapping[str, Any] | None, node: Node) -> bool:
    """One term is enough. A term without requirements matches nothing."""
    return any(_term_matches(term, node) for term in (selector or {}).get("nodeSelectorTerms") or ())


def _term_matches(term: Mapping[str, Any], node: Node) -> bool:
    labels: Sequence[Mapping[str, Any]] = term.get("matchExpressions") or ()
    fields: Sequence[Mapping[str, Any]] = term.get("matchFields") or ()
    if not labels and not fields:
        return False
    return all(_holds(one, node.metadata.labels) for one in labels) and all(
        _holds(one, {"metadata.name": node.metadata.name}) for one in fields
    )


def _holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    label = labels.get(requirement["key"])
    values: Sequence[str] = requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return label in values
        case "NotIn":
            return label not in values
        case "Exists":
            return label is not None
        case "DoesNotExist":
            return label is None
        case "Gt":
            return _is_number(label) and int(label or "") > int(values[0])
        case "Lt":
            return _is_number(label) and int(label or "") < int(values[0])
    return False


def _is_number(label: str | None) -> bool:
    return (
        label is not None
        and len(label) < 20
        and label.removeprefix("-").isascii()
        and label.removeprefix("-").isdigit()
    )
