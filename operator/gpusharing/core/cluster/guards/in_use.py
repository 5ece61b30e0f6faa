"""Keeps claims that pods use: without one, devices would be given to others while the pod goes on using them.

Kubernetes keeps them by a finalizer, which whoever may edit claims may take away.
"""

from typing import Any, Final

from gpusharing.api import names
from gpusharing.core.cluster.guards.form import forbidden, guard, rule

IN_USE: Final = "gpusharing-in-use"

_FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_OLD: Final = "dyn(oldObject)"


def in_use() -> list[dict[str, Any]]:
    def is_kept(claim: str) -> str:
        return f"'{_FINALIZER}' in {claim}.metadata.?finalizers.orValue([])"

    return guard(
        IN_USE,
        "Keeps claims with GPUs that pods use.",
        rules=[rule("resource.k8s.io", ["UPDATE"], "resourceclaims")],
        condition=("takes-protection-away", f"{is_kept(_OLD)} && !({is_kept('dyn(object)')})"),
        variables={
            "users": f"{_OLD}.?status.reservedFor.orValue([])",
            "devices": f"{_OLD}.?status.allocation.devices.results.orValue([]).filter(r, r.driver == '{names.DRIVER}')",
        },
        validations=[
            # Whose claim it is does not matter, so no change of a policy can hold back a claim that ends.
            forbidden(
                "size(variables.users) == 0 || size(variables.devices) == 0",
                f"'{_FINALIZER} stays while ' + variables.users[0].resource + ' ' + variables.users[0].name + ' uses '"
                " + variables.devices[0].pool + '/' + variables.devices[0].device + ': delete what uses it'",
            )
        ],
    )
