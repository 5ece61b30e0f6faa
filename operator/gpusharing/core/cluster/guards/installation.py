"""Whether a guard is installed as it should be: one of another version, one that was edited, or one that nothing binds
may hold nobody."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from gpusharing.api.core import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from gpusharing.core.cluster.guards import allocation, claims, closing, in_use, namespaces, pods
from gpusharing.core.cluster.guards.form import GENERATED, REVISION

_WRITTEN: Final = {*GENERATED, REVISION, closing.CLOSED}
"""Variables of which the expressions are the operator's."""

_MADE = {
    allocation.ALLOCATION: allocation.allocation,
    claims.CLAIMS: claims.claims,
    claims.TOLERATIONS: claims.tolerations,
    closing.CLOSING: closing.closing,
    in_use.IN_USE: in_use.in_use,
    pods.PODS: pods.pods,
    namespaces.NAMESPACES: namespaces.namespaces,
}


def is_as_installed(guard: ValidatingAdmissionPolicy) -> bool:
    """Beside what the operator writes, and what the API server adds to it."""
    return _says(_without_literals(guard.spec), _installed(guard.metadata.name))


def binds(binding: ValidatingAdmissionPolicyBinding) -> bool:
    """The guard of its name, as it was installed."""
    return _says(binding.spec, _installed_binding(binding.metadata.name))


@cache
def _installed(name: str) -> Mapping[str, Any]:
    policy, _ = _MADE[name]()
    return _without_literals(policy["spec"])


@cache
def _installed_binding(name: str) -> Any:
    _, binding = _MADE[name]()
    return binding["spec"]


def _without_literals(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    variables = [
        {**variable, "expression": ""} if variable.get("name") in _WRITTEN else variable
        for variable in spec.get("variables") or ()
    ]
    return {**spec, "variables": variables}


# What the API server adds: a selector without requirements, and that objects of namespaces and others are meant.
_NOTHING: Final[tuple[Any, ...]] = ({}, "*")


def _says(there: Any, wanted: Any) -> bool:
    """This and no more: whatever is added to a guard has it hold fewer."""
    if isinstance(wanted, dict):
        if not isinstance(there, dict) or any(there[key] not in _NOTHING for key in there.keys() - wanted.keys()):
            return False
        return all(_says(there.get(key), item) for key, item in wanted.items())
    if isinstance(wanted, list):
        return isinstance(there, list) and len(there) == len(wanted) and all(map(_says, there, wanted))
    return bool(there == wanted)
