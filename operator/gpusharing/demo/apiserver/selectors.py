"""Label selectors and field selectors, as they stand in queries."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from gpusharing.demo.apiserver.errors import bad_request
from gpusharing.demo.apiserver.kinds import Kind

Test = Callable[[Mapping[str, Any]], bool]

_SET: Final = re.compile(r"\s*([\w./-]+)\s+(in|notin)\s*\(([^)]*)\)\s*")
_COMPARE: Final = re.compile(r"\s*([\w./-]+)\s*(==|=|!=|>|<)\s*([\w.-]*)\s*")
_EXISTS: Final = re.compile(r"\s*(!?)\s*([\w./-]+)\s*")
_COMMA: Final = re.compile(r",(?![^(]*\))")

# Beside metadata.name and metadata.namespace.
_FIELDS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "pods"): (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.nominatedNodeName",
    ),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "namespaces"): ("status.phase",),
    ("", "secrets"): ("type",),
    ("", "events"): (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
        "reportingComponent", "source", "type",
    ),
    ("resource.k8s.io", "resourceslices"): ("spec.nodeName", "spec.driver"),
}  # fmt: skip


def label_test(text: str) -> Test:
    """Raises StatusError for what cannot be read."""
    tests = [_label_test(part, text) for part in _COMMA.split(text) if part.strip()]

    def matches(value: Mapping[str, Any]) -> bool:
        labels = value["metadata"].get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


def _label_test(part: str, text: str) -> Test:
    if match := _SET.fullmatch(part):
        key, operator, listed = match.groups()
        wanted = {one.strip() for one in listed.split(",")}
        if operator == "in":
            return lambda labels: labels.get(key) in wanted
        return lambda labels: labels.get(key) not in wanted
    if match := _COMPARE.fullmatch(part):
        key, operator, value = match.groups()
        match operator:
            case "=" | "==":
                return lambda labels: labels.get(key) == value
            case "!=":
                return lambda labels: labels.get(key) != value
            case _ if not value.lstrip("-").isdecimal():
                raise bad_request(
                    f"values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
                )
            case _:
                return lambda labels: key in labels and _is_beyond(labels[key], operator, value)
    if match := _EXISTS.fullmatch(part):
        absent, key = match.groups()
        return lambda labels: (key in labels) is not bool(absent)
    raise bad_request(f"unable to parse requirement: found '{part.strip()}' in selector '{text}'")


def _is_beyond(label: str, operator: str, value: str) -> bool:
    try:
        return int(label) > int(value) if operator == ">" else int(label) < int(value)
    except ValueError:
        return False


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Of a LabelSelector in an object."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(one, labels) for one in selector.get("matchExpressions") or ())


def _meets(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = requirement["key"], requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def field_test(text: str, kind: Kind) -> Test:
    """Raises StatusError for fields that this kind cannot be selected by."""
    known = {"metadata.name", "metadata.namespace", *_FIELDS.get(kind.stored_as, ()), *kind.selectable}
    wanted: list[tuple[str, bool, str]] = []
    for part in text.split(","):
        if not part.strip():
            continue
        name, operator, value = re.match(r"([^=!]*)(==|=|!=|)(.*)", part).groups()  # type: ignore[union-attr]
        if not operator:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        if name == "reportingController":
            name = "reportingComponent"
        name = re.sub("^regarding", "involvedObject", name)
        if name not in known:
            has_others = kind.is_custom or kind.stored_as in _FIELDS
            why = f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            raise bad_request(f"field label not supported: {name}" if has_others else why)
        wanted.append((name, operator != "!=", value))

    def matches(value: Mapping[str, Any]) -> bool:
        return all((field_value(value, name) == text) is is_equal for name, is_equal, text in wanted)

    return matches


def field_value(value: Any, path: str) -> str:
    if path == "source":
        return str((value.get("source") or {}).get("component") or value.get("reportingComponent") or "")
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        # As Go's zero values.
        return "false" if path in {"spec.unschedulable", "spec.hostNetwork"} else ""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
