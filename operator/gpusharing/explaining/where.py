"""On which nodes a pod may run, devices aside: the scheduler's plugins that look at a node by itself."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from gpusharing.api.dra import Node as AnyNode
from gpusharing.api.meta import LabelledMeta
from gpusharing.core.allocate.node_selectors import matches
from gpusharing.explaining.lean import Node, Taint
from gpusharing.snapshots.world import Json

_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_KEEPS_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})


class Plugin(StrEnum):
    SELECTOR = "its nodeSelector or affinity does not match them"
    CORDONED = "they are cordoned"
    TAINT = "they have a taint that it does not tolerate"


class Exclusion(NamedTuple):
    plugin: Plugin
    detail: str = ""
    """The taint."""


def exclusions(pod: Json, nodes: Iterable[Node]) -> Mapping[str, Exclusion]:
    """By the node's name, in the order in which the scheduler looks."""
    spec = pod["spec"]
    tolerations: Sequence[Mapping[str, Any]] = spec.get("tolerations") or ()
    required = _required(spec)
    selector: Mapping[str, str] = spec.get("nodeSelector") or {}
    found: dict[str, Exclusion] = {}
    for node in nodes:
        if (exclusion := _exclusion(node, tolerations, selector, required)) is not None:
            found[node.metadata.name] = exclusion
    return found


def _required(spec: Json) -> Mapping[str, Any] | None:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required: Mapping[str, Any] | None = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required


def _exclusion(
    node: Node,
    tolerations: Sequence[Mapping[str, Any]],
    selector: Mapping[str, str],
    required: Mapping[str, Any] | None,
) -> Exclusion | None:
    if node.spec.unschedulable and not _tolerates(tolerations, Taint(_UNSCHEDULABLE, "NoSchedule")):
        return Exclusion(Plugin.CORDONED)
    for taint in node.spec.taints or ():
        if taint.effect in _KEEPS_AWAY and not _tolerates(tolerations, taint):
            return Exclusion(Plugin.TAINT, f"{taint.key}={taint.value}" if taint.value else taint.key)
    if any(node.labels.get(key) != value for key, value in selector.items()):
        return Exclusion(Plugin.SELECTOR)
    if required is not None and not matches(
        required, AnyNode(metadata=LabelledMeta(name=node.metadata.name, labels=dict(node.labels)))
    ):
        return Exclusion(Plugin.SELECTOR)
    return None


def _tolerates(tolerations: Sequence[Mapping[str, Any]], taint: Taint) -> bool:
    return any(
        one.get("effect") in {None, "", taint.effect}
        and one.get("key") in {None, "", taint.key}
        and (
            one.get("operator") == "Exists"
            or (one.get("operator") in {None, "", "Equal"} and (one.get("value") or "") == taint.value)
        )
        for one in tolerations
    )
