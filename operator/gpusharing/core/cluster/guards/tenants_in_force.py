"""Which namespaces are tenants now. Guards and verdicts say the same, also of a policy that is suspended."""

from collections.abc import Iterable, Mapping

from gpusharing.api.meta import LabelSelector
from gpusharing.core.cluster.guards import literals
from gpusharing.core.cluster.guards.allocation import ALLOCATION
from gpusharing.core.cluster.guards.form import GENERATED
from gpusharing.core.cluster.guards.upkeep import Guards, texts
from gpusharing.core.policies.policy import ExaminedPolicy

TenantsInForce = Mapping[str, LabelSelector | None]
"""By policy. None: it is suspended, and the guards do not know its tenants."""


def tenants_in_force(policies: Iterable[ExaminedPolicy], guards: Guards) -> TenantsInForce:
    """An edit of a suspended policy does not count. What was in force before stands in the allocation guard, which is
    not updated either: no status says it, since parts of an edit may be in force on some nodes only."""
    guard = guards.get(ALLOCATION)
    known = literals.read(texts(guard).get(GENERATED.tenants, literals.EMPTY)) if guard else {}
    return {
        examined.name: literals.read_tenants(known.get(examined.name, ""))
        if examined.is_suspended
        else examined.policy.spec.tenants.namespaces
        for examined in policies
    }
