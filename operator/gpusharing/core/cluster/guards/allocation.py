"""The allocation guard: looks at what the scheduler gives to a claim, whatever class or toleration led there.

Reserved devices are published in pools <node>/<policy>. Those of a policy that is not known here are refused to
everybody: nothing is open while the operator is behind, or where there is no room for the policy.
"""

from typing import Any, Final

from gpusharing.api import names
from gpusharing.core.cluster.guards.checks import SETTINGS, SETTINGS_CHECKS, allocated, no_admin_access, of_tenants
from gpusharing.core.cluster.guards.form import GENERATED, LABELS, forbidden, guard, refusals, rule, seen_to_hold
from gpusharing.core.cluster.guards.literals import EMPTY

ALLOCATION: Final = "gpusharing-allocation"

_DEVICES: Final = "object.status.allocation.devices"
_NEWLY_ALLOCATED: Final = (
    "has(object.status.allocation) && !(has(oldObject.status) && has(oldObject.status.allocation))"
)
_FOR_TENANTS: Final = f"r.driver == '{names.DRIVER}' && r.pool.contains('/')"


def allocation() -> list[dict[str, Any]]:
    mine = "variables.results.filter(r, r.pool.split('/')[1] == p)"
    asked = "variables.results.map(r, r.pool.split('/')[1]).distinct()"
    known = f"name in variables.{GENERATED.tenants}"
    variables, validation = refusals(
        of_tenants(f"'device ' + {mine}[0].pool + '/' + {mine}[0].device"),
        [no_admin_access(mine), *SETTINGS_CHECKS, *allocated(mine)],
    )
    return guard(
        ALLOCATION,
        "Checks reserved devices when the scheduler allocates them to a claim.",
        **seen_to_hold(
            ALLOCATION,
            rules=[rule("resource.k8s.io", ["UPDATE"], "resourceclaims/status")],
            condition=(
                "newly-allocates-devices-for-tenants",
                f"{_NEWLY_ALLOCATED} && has({_DEVICES}.results) && {_DEVICES}.results.exists(r, {_FOR_TENANTS})",
            ),
            variables={
                GENERATED.tenants: EMPTY,
                GENERATED.limits: EMPTY,
                "results": f"dyn(object).status.allocation.devices.results.filter(r, {_FOR_TENANTS})",
                "unknown": f"{asked}.filter(name, !({known}))",
                "asked": f"{asked}.filter(name, {known})",
                **LABELS,
                # What a class sets is the platform team's.
                "configs": f"(has({_DEVICES}.config) ? dyn(object).status.allocation.devices.config : [])"
                f".filter(c, c.source == 'FromClaim' && has(c.opaque) && c.opaque.driver == '{names.DRIVER}')"
                ".map(c, c.opaque.parameters)",
                **SETTINGS,
                **variables,
            },
            validations=[
                forbidden(
                    "size(variables.unknown) == 0",
                    "'device ' + variables.results[0].pool + '/' + variables.results[0].device + ' is reserved for "
                    "tenants of SharingPolicy ' + variables.unknown.join(', ') + ', which this guard does not know "
                    "(yet): see the conditions of that policy'",
                ),
                validation,
            ],
        ),
    )
