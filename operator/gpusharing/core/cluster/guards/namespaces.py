"""Where people who do not decide on GPUs may label namespaces: who may make a tenant, or give admin access."""

from typing import Any, Final

from gpusharing.api import names
from gpusharing.core.cluster.guards.checks import is_tenant
from gpusharing.core.cluster.guards.form import GENERATED, forbidden, guard, rule
from gpusharing.core.cluster.guards.literals import EMPTY

NAMESPACES: Final = "gpusharing-namespaces"
ADMIN_ACCESS: Final = "gpusharing-adminaccess"

_LABEL: Final = "resource.kubernetes.io/admin-access"
# Labels may be written through each of them.
_WRITTEN: Final = rule("", ["CREATE", "UPDATE"], "namespaces", "namespaces/status", "namespaces/finalize")
_MOST_LABELS: Final = 256


def _labels(of: str) -> str:
    return f"has({of}.metadata.labels) ? {of}.metadata.labels : {{}}"


_CONDITION: Final = (
    "labels-change",
    f"request.operation == 'CREATE' || ({_labels('object')}) != ({_labels('oldObject')})",
)
# What costs more than expressions may is let through. So this comes first.
_FEW: Final = {
    "expression": f"size(variables.now) <= {_MOST_LABELS}",
    "message": f"a namespace may have at most {_MOST_LABELS} labels: remove some",
    "reason": "Forbidden",
}
_VARIABLES: Final = {
    "now": _labels("object"),
    "before": f"request.operation == 'CREATE' ? {{}} : ({_labels('oldObject')})",
}


def namespaces() -> list[dict[str, Any]]:
    is_one = is_tenant("variables.now", "variables.labelsNow")
    was_one = is_tenant("variables.before", "variables.labelsBefore")
    return guard(
        NAMESPACES,
        "Requires the verb admit on a SharingPolicy for labels that make a namespace its tenant.",
        rules=[_WRITTEN],
        condition=_CONDITION,
        variables={
            GENERATED.tenants: EMPTY,
            **_VARIABLES,
            "labelsNow": "variables.now.map(k, k + '=' + variables.now[k])",
            "labelsBefore": "variables.before.map(k, k + '=' + variables.before[k])",
            "joined": f"variables.{GENERATED.tenants}.map(p, p).filter(p, {is_one} &&\n"
            f"!(request.operation == 'UPDATE' && {was_one}))",
        },
        validations=[
            _FEW,
            forbidden(
                f"variables.joined.all(p, authorizer.group('{names.GROUP}').resource('sharingpolicies').name(p)"
                ".check('admit').allowed())",
                "'these labels make namespace ' + object.metadata.name + ' a tenant of ' + "
                "variables.joined.map(p, 'SharingPolicy ' + p).join(', ') + "
                f"': this requires the verb admit on sharingpolicies.{names.GROUP}'",
            ),
        ],
        fails_closed=False,
    )


def admin_access() -> list[dict[str, Any]]:
    """Kubernetes lets whoever may label a namespace give it access to devices that others hold."""

    def has_it(labels: str) -> str:
        return f"{labels}[?'{_LABEL}'].orValue('') == 'true'"

    return guard(
        ADMIN_ACCESS,
        f"The label {_LABEL} requires the verb grant-admin-access on resourceclaims.",
        rules=[_WRITTEN],
        condition=_CONDITION,
        variables=_VARIABLES,
        validations=[
            _FEW,
            {
                "expression": f"!({has_it('variables.now')}) || {has_it('variables.before')} || "
                "authorizer.group('resource.k8s.io').resource('resourceclaims').check('grant-admin-access').allowed()",
                "message": f"the label {_LABEL} requires the verb grant-admin-access on "
                "resourceclaims.resource.k8s.io, cluster-wide",
                "reason": "Forbidden",
            },
        ],
        fails_closed=False,
    )
