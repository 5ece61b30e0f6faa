"""Whether a guard is installed as it should be: one of another version, or one that was edited, may hold nobody."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from gpusharing.api.core import ValidatingAdmissionPolicy
from gpusharing.core.guards import allocation, claims, namespaces, pods
from gpusharing.core.guards.form import GENERATED

_MADE = {
    allocation.ALLOCATION: allocation.allocation,
    claims.CLAIMS: claims.claims,
    pods.PODS: pods.pods,
    namespaces.NAMESPACES: namespaces.namespaces,
}


def is_as_installed(guard: ValidatingAdmissionPolicy) -> bool:
    """Beside what the operator writes, and what the API server adds to it."""
    return _has(_without_literals(guard.spec), _installed(guard.metadata.name))


@cache
def _installed(name: str) -> Mapping[str, Any]:
    policy, _ = _MADE[name]()
    return _without_literals(policy["spec"])


def _without_literals(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    variables = [
        {**variable, "expression": ""} if variable.get("name") in GENERATED else variable
        for variable in spec.get("variables") or ()
    ]
    return {**spec, "variables": variables}


def _has(there: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(_has(there.get(key), item) for key, item in wanted.items())
    if isinstance(wanted, list):
        return isinstance(there, list) and len(there) == len(wanted) and all(map(_has, there, wanted))
    return bool(there == wanted)
