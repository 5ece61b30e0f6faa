"""The early answer to pods that ask for extended resources: otherwise the scheduler is refused, and tries again."""

from typing import Any, Final

from gpusharing.core.cluster.guards.checks import of_tenants
from gpusharing.core.cluster.guards.form import GENERATED, LABELS, guard, refusals, rule, seen_to_hold
from gpusharing.core.cluster.guards.literals import EMPTY

PODS: Final = "gpusharing-pods"

# By this name every class can be asked for.
_IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
_CONTAINERS: Final = "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
_LIMITED: Final = "has(c.resources) && has(c.resources.limits)"


def pods() -> list[dict[str, Any]]:
    asked_class = f"k.substring({len(_IMPLICIT)})"
    is_class = f"k.startsWith('{_IMPLICIT}') && {asked_class} in variables.{GENERATED.classes}"
    is_resource = f"k in variables.{GENERATED.resources}"
    policy_of = f"({is_resource} ? variables.{GENERATED.resources}[k] : variables.{GENERATED.classes}[{asked_class}])"
    mine = f"variables.mine.filter(k, {policy_of} == p)"
    variables, validation = refusals(of_tenants(f"{mine}.join(', ')"))
    return guard(
        PODS,
        "Checks new pods that ask for an extended resource of a SharingPolicy with tenants.",
        **seen_to_hold(
            PODS,
            rules=[rule("", ["CREATE"], "pods")],
            condition=(
                "asks-for-extended-resources",
                f"{_CONTAINERS}.exists(c, {_LIMITED} && c.resources.limits.exists(k, k.contains('/')))",
            ),
            variables={
                GENERATED.tenants: EMPTY,
                GENERATED.classes: EMPTY,
                GENERATED.resources: EMPTY,
                "mine": f"{_CONTAINERS}.filter(c, {_LIMITED})"
                f".map(c, c.resources.limits.map(k, k).filter(k, {is_resource} || {is_class})).flatten()",
                "asked": f"variables.mine.map(k, {policy_of}).distinct()",
                **LABELS,
                **variables,
            },
            validations=[validation],
        ),
        # The allocation guard holds them all the same, and this one could stop every pod of the cluster.
        fails_closed=False,
    )
