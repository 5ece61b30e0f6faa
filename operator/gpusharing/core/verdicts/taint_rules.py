"""DeviceTaintRules: they make Kubernetes evict the pods of everybody who was allocated a device."""

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.dra import DeviceTaintRule
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.core.intents import Create, Delete, Intent, Stage, Target
from gpusharing.core.state.node_view import NodeView, Place

_EFFECT: Final = "NoExecute"


def place_of(rule: DeviceTaintRule) -> Place:
    selector = rule.spec.device_selector
    return Place(selector.get("pool", ""), selector.get("device", ""))


def rule_intents(view: NodeView, places: Collection[Place]) -> list[Intent]:
    """The rules that are missing for these devices of a node, and those that have done their work."""
    if view.taint_rules is None:
        return []
    bodies = {body["metadata"]["name"]: body for body in (_rule(place, view.sharing, view.driver) for place in places)}
    there = {rule.metadata.name: rule for rule in view.taint_rules}
    done: list[Intent] = [
        Delete(target=Target.DEVICE_TAINT_RULE, stage=Stage.NODES, before=rule.metadata)
        for name, rule in sorted(there.items())
        if not (name in bodies and _does(rule, bodies[name]))
    ]
    missing = [
        Create(target=Target.DEVICE_TAINT_RULE, stage=Stage.NODES, body=body)
        for name, body in sorted(bodies.items())
        if name not in there
    ]
    return done + missing


def _rule(place: Place, owner: NodeSharing, driver: str) -> dict[str, Any]:
    """Goes with the NodeSharing, should nobody be there to take it away."""
    digest = hashlib.sha256(f"{driver}/{place}".encode()).hexdigest()[:16]
    reference = {
        "apiVersion": names.API_VERSION,
        "kind": "NodeSharing",
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
    }
    return {
        "metadata": {
            "name": f"gpusharing-conflict-{digest}",
            "labels": {names.MANAGED_BY: names.OPERATOR},
            "ownerReferences": [reference],
        },
        "spec": {
            "deviceSelector": {"driver": driver, "pool": place.pool, "device": place.device},
            "taint": {"key": names.CONFLICT_TAINT, "effect": _EFFECT},
        },
    }


def _does(rule: DeviceTaintRule, body: Mapping[str, Any]) -> bool:
    """Whether it is still as it was made. What the API server adds to a taint (since when) is not ours."""
    wanted = body["spec"]
    selector: Mapping[str, str] = wanted["deviceSelector"]
    taint: Mapping[str, str] = wanted["taint"]
    return rule.spec.device_selector == selector and taint.items() <= rule.spec.taint.items()
