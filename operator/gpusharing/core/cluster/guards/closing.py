"""The closing guard: refuses allocations of devices that are being withdrawn, whoever makes them.

It is what a decision of the scheduler meets that was on its way when its device was closed. An operator that has seen
it to hold need not wait until no such decision can come any more.
"""

from typing import Any, Final

from gpusharing.api import names
from gpusharing.core.cluster.guards.form import forbidden, guard, rule, seen_to_hold
from gpusharing.core.cluster.guards.literals import EMPTY

CLOSING: Final = names.CLOSING_GUARD
CLOSED: Final = "closed"
"""By pool: since when, since when it is over, and which devices (core/state/fence.py)."""

_DEVICES: Final = "dyn(object).status.allocation.devices"
_NEWLY_ALLOCATED: Final = (
    "has(dyn(object).status.allocation) && !(has(dyn(oldObject).status) && has(dyn(oldObject).status.allocation))"
)
_OURS: Final = f"r.driver == '{names.DRIVER}' && !(has(r.adminAccess) && r.adminAccess)"
# As `names.items_of_device`.
_NAMES: Final = (
    "[string(r.device), r.device.split('-')[1], "
    "r.device.contains('-mig-') ? r.device.split('-mig-')[0] + '-mig' : string(r.device)]"
)


def closing() -> list[dict[str, Any]]:
    is_closed = f"r.pool in variables.{CLOSED} && variables.{CLOSED}[r.pool].exists(c, {_NAMES}.exists(n, n in c))"
    return guard(
        CLOSING,
        "Refuses devices that are being withdrawn when the scheduler allocates them to a claim.",
        **seen_to_hold(
            CLOSING,
            rules=[rule("resource.k8s.io", ["UPDATE"], "resourceclaims/status")],
            condition=(
                "newly-allocates-devices",
                f"{_NEWLY_ALLOCATED} && has({_DEVICES}.results) && {_DEVICES}.results.exists(r, {_OURS})",
            ),
            variables={
                CLOSED: EMPTY,
                "refused": f"{_DEVICES}.results.filter(r, {_OURS} && {is_closed})",
            },
            validations=[
                forbidden(
                    "size(variables.refused) == 0",
                    "'device ' + variables.refused[0].pool + '/' + variables.refused[0].device + ' is being withdrawn, "
                    "or was withdrawn less than an hour ago; the scheduler tries again'",
                ),
            ],
        ),
    )
