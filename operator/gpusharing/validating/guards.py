"""What our admission policies would say of claims, templates and pods, as far as files can tell.

The guards' own expressions are evaluated, with the literals that the operator would write for these policies.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gpusharing import cel
from gpusharing.api.core import ValidatingAdmissionPolicy
from gpusharing.api.meta import ObjectMeta
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.cel.expressions import expression
from gpusharing.core.cluster.device_classes import plan_classes
from gpusharing.core.cluster.guards import claims, pods
from gpusharing.core.cluster.guards.form import GENERATED
from gpusharing.core.cluster.guards.literals import EMPTY
from gpusharing.core.cluster.guards.upkeep import update_guards
from gpusharing.core.intents import Patch
from gpusharing.core.policies.policy import examine
from gpusharing.findings import validating
from gpusharing.validating.problems import Path, Problem

Labels = Mapping[str, str]
Spec = Mapping[str, Any]

_VARIABLES: Final = ("object", "namespaceObject", "request", "variables")
_REQUEST: Final = {"operation": "CREATE", "resource": {"resource": "none of a probe"}}
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_REMEDIES: Final = {
    claims.CLAIMS: "Change the claim, or spec.tenants of the policy.",
    claims.TOLERATIONS: "Change the tolerations of the request.",
    pods.PODS: "Use another extended resource, or change spec.tenants of the policy.",
}


class Guards:
    def __init__(self, policies: Sequence[SharingPolicy], namespaces: Mapping[str, Labels], *, minor: int) -> None:
        """`namespaces`: the labels of those that the files have."""
        self._namespaces = {name: {**labels, _NAME_LABEL: name} for name, labels in namespaces.items()}
        self._specs = _with_literals(policies, minor)

    def of_claim(self, value: Mapping[str, Any]) -> Iterator[Problem]:
        """Of a claim or a template."""
        is_template = value["kind"] == "ResourceClaimTemplate"
        path: Path = ("spec", "spec", "devices") if is_template else ("spec", "devices")
        spec = value["spec"]["spec"] if is_template else value["spec"]
        # As the API server writes it.
        devices = {"requests": None, **(spec.get("devices") or {})}
        shown = {**value, "spec": {"spec": {"devices": devices}} if is_template else {"devices": devices}}
        for guard in (claims.CLAIMS, claims.TOLERATIONS):
            yield from self._refusals(guard, shown, value["metadata"].get("namespace"), path)

    def of_pod(self, spec: Mapping[str, Any], namespace: str | None, path: Path) -> Iterator[Problem]:
        yield from self._refusals(pods.PODS, {"kind": "Pod", "metadata": {}, "spec": spec}, namespace, path)

    def _refusals(self, guard: str, value: Mapping[str, Any], namespace: str | None, path: Path) -> Iterator[Problem]:
        spec = self._specs[guard]
        labels = self._namespaces.get(namespace or "")
        if labels is None:
            # Nobody knows whose tenant the namespace is: only what every tenant is refused.
            spec = _without_tenants(spec)
        about = {"metadata": {"name": namespace or "", "labels": labels or {}}}
        for message in _evaluated(spec, {"object": value, "namespaceObject": about, "request": _REQUEST}):
            yield Problem(validating.REFUSED_BY_GUARD, path, message, _REMEDIES[guard], guard=guard)


def _with_literals(policies: Sequence[SharingPolicy], minor: int) -> Mapping[str, Spec]:
    installed = {body["metadata"]["name"]: body for body, _ in (claims.claims(), claims.tolerations(), pods.pods())}
    specs: dict[str, Spec] = {name: body["spec"] for name, body in installed.items()}
    examined = [examine(policy, minor=minor) for policy in policies]
    guards = {
        name: ValidatingAdmissionPolicy(metadata=ObjectMeta(name=name), spec=body["spec"])
        for name, body in installed.items()
    }
    for intent in update_guards(examined, plan_classes(examined, {}).classes, guards, {}, {}).intents:
        if isinstance(intent, Patch):
            specs[intent.before.name] = {**specs[intent.before.name], **intent.body["spec"]}
    return specs


def _without_tenants(spec: Spec) -> Spec:
    return {
        **spec,
        "variables": [
            {**one, "expression": EMPTY} if one["name"] == GENERATED.tenants else one for one in spec["variables"]
        ],
    }


def _evaluated(spec: Spec, values: Mapping[str, Any]) -> Iterator[str]:
    """The messages of the validations that fail."""
    variables: dict[str, Any] = {}
    given = {**values, "variables": variables}
    try:
        if not all(_value(one["expression"], given) is True for one in spec.get("matchConditions") or ()):
            return
    except cel.EvaluationError as error:
        yield from _failed(spec, error)
        return
    for one in spec["variables"]:
        try:
            variables[one["name"]] = _value(one["expression"], given)
        except cel.EvaluationError:
            # The API server evaluates those that are used: who reads it fails.
            continue
    for validation in spec["validations"]:
        try:
            if _value(validation["expression"], given) is not True:
                message = validation.get("message") or _value(validation["messageExpression"], given)
                yield str(message).removesuffix(".")
        except cel.EvaluationError as error:
            yield from _failed(spec, error)


def _failed(spec: Spec, error: cel.EvaluationError) -> Iterator[str]:
    if spec["failurePolicy"] == "Fail":
        yield f"it cannot be evaluated: {error}"


def _value(text: str, given: Mapping[str, Any]) -> Any:
    return expression(text, _VARIABLES).evaluate(given)


def labels_of(namespace: Mapping[str, Any]) -> Labels:
    labels = namespace["metadata"].get("labels")
    return {key: str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}
