"""Which namespaces are tenants now. Guards and verdicts say the same, also of a policy that is suspended."""

from collections.abc import Mapping, Sequence

from gpusharing.api.meta import LabelSelector
from gpusharing.core.cluster.guards import literals
from gpusharing.core.cluster.guards.allocation import ALLOCATION
from gpusharing.core.cluster.guards.form import GENERATED
from gpusharing.core.cluster.guards.upkeep import Guards, texts
from gpusharing.core.policies.policy import ExaminedPolicy

TenantsInForce = Mapping[str, LabelSelector | None]
"""By policy. None: it is suspended, and the guards do not know its tenants."""


def tenants_in_force(policies: Sequence[ExaminedPolicy], guards: Guards) -> TenantsInForce:
    """An edit of a suspended policy does not count. What was in force before stands in the allocation guard, which is
    not updated either: no status says it, since parts of an edit may be in force on some nodes only."""
    tenants: dict[str, LabelSelector | None] = {item.name: item.policy.spec.tenants.namespaces for item in policies}
    if suspended := [item.name for item in policies if item.is_suspended]:
        guard = guards.get(ALLOCATION)
        known = literals.read(texts(guard).get(GENERATED.tenants, literals.EMPTY)) if guard else {}
        tenants.update((name, literals.read_tenants(known.get(name, ""))) for name in suspended)
    return tenants
