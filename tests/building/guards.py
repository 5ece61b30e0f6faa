"""The guards as manifests/ installs them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpusharing.api.core import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from gpusharing.api.meta import ObjectMeta
from gpusharing.core.cluster.guards import allocation, claims, closing, literals, namespaces, pods
from gpusharing.core.cluster.guards.upkeep import Bindings, Guards


def installed(*, with_namespaces: bool = False) -> Guards:
    objects = [claims.claims(), pods.pods(), allocation.allocation(), closing.closing()]
    if with_namespaces:
        objects.append(namespaces.namespaces())
    return {policy["metadata"]["name"]: _kept(policy) for policy, _ in objects}


def knowing(tenants: Mapping[str, str]) -> Guards:
    """As if these had been written: by policy, the literal of its tenants."""
    return {name: _knowing(guard, tenants) for name, guard in installed().items()}


def _knowing(guard: ValidatingAdmissionPolicy, tenants: Mapping[str, str]) -> ValidatingAdmissionPolicy:
    texts = variables(guard) | {"tenants": literals.render(tenants)}
    return replace(guard, spec=guard.spec | {"variables": [{"name": n, "expression": e} for n, e in texts.items()]})


def without_variables(guard: ValidatingAdmissionPolicy) -> ValidatingAdmissionPolicy:
    return replace(guard, spec={key: value for key, value in guard.spec.items() if key != "variables"})


def bound() -> Bindings:
    objects = [claims.claims(), pods.pods(), allocation.allocation(), closing.closing()]
    return {
        binding["metadata"]["name"]: ValidatingAdmissionPolicyBinding(
            metadata=ObjectMeta(name=binding["metadata"]["name"], uid="u", resource_version="3"), spec=binding["spec"]
        )
        for _, binding in objects
    }


def variables(guard: ValidatingAdmissionPolicy) -> dict[str, Any]:
    return {item["name"]: item["expression"] for item in guard.spec["variables"]}


def _kept(policy: dict[str, Any]) -> ValidatingAdmissionPolicy:
    metadata = ObjectMeta(name=policy["metadata"]["name"], uid="u", resource_version="3")
    return replace(ValidatingAdmissionPolicy(metadata=metadata, spec={}), spec=policy["spec"])
