"""What all guards have in common, as Kubernetes objects."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypedDict

from gpusharing.core.cluster.guards.checks import Check

Object = dict[str, Any]
Validation = dict[str, str]


class Generated(NamedTuple):
    """Variables whose expressions the operator writes."""

    tenants: str = "tenants"
    """By policy: what is required of the labels of a namespace. Only policies that are not for everybody."""
    limits: str = "limits"
    """By policy: what a claim may ask for, by field. Only policies that say something of that."""
    classes: str = "classes"
    """The policy of each of its classes."""
    resources: str = "resources"
    """The policy of each extended resource that leads to one of its classes."""


GENERATED: Final = Generated()

# Those of a namespace, as entries of `tenants` have them.
LABELS: Final = {
    "keys": "has(namespaceObject.metadata.labels) ? namespaceObject.metadata.labels.map(k, k) : []",
    "labels": "variables.keys.map(k, k + '=' + namespaceObject.metadata.labels[k])",
}

# Of a claim as of a template, in the variable `devices`.
CLAIM_SPEC: Final = "(object.kind == 'ResourceClaimTemplate' ? dyn(object).spec.spec : dyn(object).spec)"
REQUESTS: Final = (
    "variables.devices.requests.map(r, "
    "has(r.exactly) ? [r.exactly] : has(r.firstAvailable) ? r.firstAvailable : []).flatten()"
)


PROBES: Final = "coordination.k8s.io"
"""The group of the Leases by which is seen whether a guard holds: nothing else is made of them."""


def probe(guard: str) -> str:
    """The name of a Lease that this guard refuses, saying which revision of its literals it goes by."""
    return f"{guard}-probe"


REVISION: Final = "revision"
NO_REVISION: Final = "''"
_OF_REVISION: Final = "holds as of revision "


def revision_of(variables: Mapping[str, str]) -> int:
    """Of a guard with these variables; 0: nobody has written it yet."""
    revision = str(variables.get(REVISION, "")).strip("'")
    return int(revision) if revision.isdecimal() else 0


def new_revision(version: str) -> dict[str, str]:
    """The variable, in a write that is decided on this version of the guard."""
    return {REVISION: f"'{version}'"}


def seen_revision(message: str) -> int | None:
    """The revision that a refusal of a probe speaks of; None: it was refused by something else."""
    # Of a guard that nobody has written yet, the API server drops the space before nothing.
    _, found, revision = f"{message} ".rpartition(_OF_REVISION)
    revision = revision.strip()
    return (int(revision) if revision.isdecimal() else 0) if found else None


class Parts(TypedDict):
    """What `guard` is made of."""

    rules: Sequence[Object]
    condition: tuple[str, str]
    variables: Mapping[str, str]
    validations: Sequence[Validation]


def seen_to_hold(
    name: str,
    *,
    rules: Sequence[Object],
    condition: tuple[str, str],
    variables: Mapping[str, str],
    validations: Sequence[Validation],
) -> Parts:
    """The parts of a guard of which a dry run can tell whether it holds, and which literals it goes by. It is the
    operator that numbers them: a revision is the version of the guard that its write was decided on, which no other
    write of this guard has, and later ones have higher ones."""
    is_probe = "request.resource.resource == 'leases'"
    return Parts(
        rules=[*rules, rule(PROBES, ["CREATE"], "leases")],
        condition=(condition[0], f"{is_probe} ? object.metadata.name == '{probe(name)}' : ({condition[1]})"),
        variables={REVISION: NO_REVISION, **variables},
        validations=[
            forbidden(f"!({is_probe})", f"'{name} {_OF_REVISION}' + variables.{REVISION}"),
            *({**validation, "expression": f"{is_probe} || {validation['expression']}"} for validation in validations),
        ],
    )


def rule(group: str, operations: Sequence[str], *resources: str) -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": list(resources),
    }


def guard(
    name: str,
    about: str,
    *,
    rules: Sequence[Object],
    condition: tuple[str, str] | None = None,
    variables: Mapping[str, str],
    validations: Sequence[Validation],
    fails_closed: bool = True,
) -> list[Object]:
    """The policy and its binding."""
    spec = {
        "failurePolicy": "Fail" if fails_closed else "Ignore",
        # Other versions of the API are no way around.
        "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": list(rules)},
        **({"matchConditions": [{"name": condition[0], "expression": condition[1]}]} if condition else {}),
        "variables": [{"name": variable, "expression": text} for variable, text in variables.items()],
        "validations": list(validations),
    }
    kind = "ValidatingAdmissionPolicy"
    return [
        {
            **_object(kind, name),
            "metadata": {"name": name, "annotations": {"kubernetes.io/description": about}},
            "spec": spec,
        },
        {**_object(f"{kind}Binding", name), "spec": {"policyName": name, "validationActions": ["Deny"]}},
    ]


def _object(kind: str, name: str) -> Object:
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}


def refusals(entrance: Check, checks: Sequence[Check] = ()) -> tuple[dict[str, str], Validation]:
    """A variable with all that stands against a request, by the policies that it asks for; and what refuses it. Whoever
    may not enter is told no more than that."""
    problems = ",\n".join(f"  {_indented(check.holds)} ? '' :\n    {check.says}" for check in checks)
    variable = (
        f"variables.asked.map(p, (!{_indented(entrance.holds)} ? [\n    {entrance.says}\n] : [\n{problems}\n])\n"
        ".filter(problem, problem != '').map(problem, 'SharingPolicy ' + p + ': ' + problem)).flatten()"
    )
    return {"refusals": variable}, forbidden("size(variables.refusals) == 0", "variables.refusals.join('; ')")


def forbidden(unless: str, says: str) -> Validation:
    """`says` is an expression, too."""
    return {"expression": unless, "messageExpression": says, "reason": "Forbidden"}


def _indented(expression: str) -> str:
    return "(" + expression.replace("\n", "\n    ") + ")"
