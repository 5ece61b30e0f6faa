"""The early answer to claims and templates, by the classes that they name; and what nobody may tolerate."""

from typing import Any, Final

from gpusharing.api import names
from gpusharing.core.cluster.guards.checks import (
    ASKING,
    SETTINGS,
    SETTINGS_CHECKS,
    no_admin_access,
    of_tenants,
    requested,
)
from gpusharing.core.cluster.guards.form import (
    CLAIM_SPEC,
    GENERATED,
    LABELS,
    REQUESTS,
    guard,
    refusals,
    rule,
    seen_to_hold,
)
from gpusharing.core.cluster.guards.literals import EMPTY

CLAIMS: Final = "gpusharing-claims"
TOLERATIONS: Final = "gpusharing-tolerations"

# Never UPDATE: a policy that has changed would hold back the finalizers of claims that it would not let in any more.
_CREATED: Final = rule("resource.k8s.io", ["CREATE"], "resourceclaims", "resourceclaimtemplates")


def claims() -> list[dict[str, Any]]:
    policy_of = f"variables.{GENERATED.classes}[r.deviceClassName]"
    mine, asking = (f"variables.{found}.filter(r, {policy_of} == p)" for found in ("mine", "asking"))
    variables, validation = refusals(
        of_tenants(f"{mine}.map(r, r.deviceClassName).join(', ')"),
        [no_admin_access(mine), *SETTINGS_CHECKS, *requested(asking)],
    )
    return guard(
        CLAIMS,
        "Checks new claims and templates that name a class of a SharingPolicy with tenants or limits.",
        **seen_to_hold(
            CLAIMS,
            rules=[_CREATED],
            # Other drivers' claims may have none, and then it is null.
            condition=(
                "has-requests",
                f"[{CLAIM_SPEC}].exists(s, has(s.devices.requests) && s.devices.requests != null)",
            ),
            variables={
                GENERATED.tenants: EMPTY,
                GENERATED.limits: EMPTY,
                GENERATED.classes: EMPTY,
                "devices": f"{CLAIM_SPEC}.devices",
                "requests": REQUESTS,
                "mine": f"variables.requests.filter(r, r.deviceClassName in variables.{GENERATED.classes})",
                # Looked up, never searched: the cost of that would refuse the claims of everybody.
                "asked": f"variables.mine.map(r, {policy_of}).distinct()",
                **LABELS,
                "configs": "(has(variables.devices.config) && variables.devices.config != null ? "
                f"variables.devices.config : []).filter(c, has(c.opaque) && c.opaque.driver == '{names.DRIVER}')"
                ".map(c, c.opaque.parameters)",
                **ASKING,
                **SETTINGS,
                **variables,
            },
            validations=[validation],
        ),
    )


def tolerations() -> list[dict[str, Any]]:
    tolerated = "variables.tolerations"
    return guard(
        TOLERATIONS,
        "Refuses tolerations that would keep a claim on a GPU that is being withdrawn.",
        rules=[_CREATED],
        condition=("has-requests", f"[{CLAIM_SPEC}].exists(s, has(s.devices.requests) && s.devices.requests != null)"),
        variables={
            "devices": f"{CLAIM_SPEC}.devices",
            "requests": REQUESTS,
            "tolerations": "variables.requests.filter(r, has(r.tolerations) && r.tolerations != null && "
            "!(has(r.adminAccess) && r.adminAccess)).map(r, r.tolerations).flatten()",
        },
        validations=[
            {
                "expression": f"{tolerated}.all(t, !has(t.key) || !t.key.startsWith('{names.GROUP}/'))",
                "message": f"only requests with adminAccess may tolerate taints of {names.GROUP}: "
                "remove the toleration",
                "reason": "Forbidden",
            },
            {
                "expression": f"{tolerated}.all(t, has(t.key) && t.key != '' || !has(t.effect) || "
                "t.effect != 'NoExecute' || has(t.tolerationSeconds) && t.tolerationSeconds <= 3600)",
                "message": "a toleration of NoExecute without a key must have tolerationSeconds of at most 3600",
                "reason": "Forbidden",
            },
        ],
    )
