"""Templates of claims in the namespaces of a policy's tenants: one for each mode that it offers, and its variants.

A template names a class of the policy, so it is made when that is, and it goes with the mode. Kubernetes lets nobody
change what a template says: one that says something else is deleted and made anew.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.dra import Namespace
from gpusharing.api.meta import Key
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.classes import TemplateVariant
from gpusharing.api.sharing.modes import for_mode
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.templates import ResourceClaimTemplate, template_digest
from gpusharing.core import quantities
from gpusharing.core.cluster.decided import ClusterDecision
from gpusharing.core.cluster.in_namespaces import Belonging, NamespaceDecider, Wanted
from gpusharing.core.intents import Create, Target
from gpusharing.core.memo import Memo
from gpusharing.core.policies.policy import ExaminedPolicy, rank
from gpusharing.core.reasons import DegradedReason

Templates = Mapping[Key, ResourceClaimTemplate]
"""By namespace and name."""

REQUEST: Final = "gpu"
"""The only request of a template."""

_Wishes = tuple[tuple[ExaminedPolicy, ...], AbstractSet[str], str]


class TemplateDecider:
    def __init__(self) -> None:
        self._wanted: Final[Memo[_Wishes, tuple[Wanted, ...]]] = Memo()
        self._namespaces: Final = NamespaceDecider(_TEMPLATES)

    def decide(
        self,
        policies: Sequence[ExaminedPolicy],
        namespaces: Mapping[str, Namespace],
        existing: Templates,
        *,
        classes: AbstractSet[str],
        guards_pending: AbstractSet[str],
        driver: str,
    ) -> ClusterDecision:
        """`classes`: those of policies that are there, or are being made. `guards_pending`: policies whose new
        templates have to wait. The templates of suspended policies stay as they are."""
        wanted = self._wanted.one(_wanted, (tuple(policies), frozenset(classes), driver))
        decided = self._namespaces.decide(wanted, namespaces, existing)
        intents = [intent for intent in decided.intents if not _has_to_wait(intent, guards_pending)]
        return ClusterDecision(intents=intents, complaints=decided.complaints)


def _has_to_wait(intent: Any, guards_pending: AbstractSet[str]) -> bool:
    return isinstance(intent, Create) and intent.body["metadata"]["labels"][names.POLICY_LABEL] in guards_pending


def _wanted(things: _Wishes) -> tuple[Wanted, ...]:
    policies, classes, driver = things
    return tuple(
        Wanted(examined.policy, dict(_specs(examined.policy, classes, driver)))
        for examined in sorted(policies, key=rank)
        if not examined.is_suspended
    )


def _specs(policy: SharingPolicy, classes: AbstractSet[str], driver: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    wishes = policy.spec.classes
    if not wishes.templates:
        return
    name = policy.metadata.name

    def has_class(sharing: Sharing) -> bool:
        return for_mode(policy.spec.offers, sharing) is not None and names.policy_class(name, sharing) in classes

    for sharing in filter(has_class, Sharing):
        # Without amounts, a claim gets the defaults of the offer.
        yield names.policy_class(name, sharing), _spec(names.policy_class(name, sharing))
    for variant in wishes.template_variants:
        if has_class(variant.mode):
            yield f"{name}-{variant.name}", _variant(names.policy_class(name, variant.mode), variant, driver)


def _variant(class_: str, variant: TemplateVariant, driver: str) -> Mapping[str, Any]:
    amounts = {
        "memory": quantities.canonical(variant.memory) if variant.memory else None,
        "shares": str(variant.shares) if variant.shares else None,
        "threads": str(variant.threads) if variant.threads else None,
    }
    asked = {capacity: amount for capacity, amount in amounts.items() if amount}
    profile = f'device.attributes["{driver}"].?profile.orValue("") == "{variant.profile}"'
    return _spec(
        class_,
        **({"capacity": {"requests": asked}} if asked else {}),
        **({"selectors": [{"cel": {"expression": profile}}]} if variant.profile else {}),
    )


def _spec(class_: str, **more: Any) -> Mapping[str, Any]:
    # With what Kubernetes would fill in, so that people see in it all that there is.
    exactly = {"deviceClassName": class_, "allocationMode": "ExactCount", "count": 1, **more}
    return {"spec": {"devices": {"requests": [{"name": REQUEST, "exactly": exactly}]}}}


def _is_right(template: ResourceClaimTemplate, spec: Mapping[str, Any]) -> bool:
    return template.spec == template_digest(spec)


_TEMPLATES: Final = Belonging(
    target=Target.RESOURCE_CLAIM_TEMPLATE,
    is_right=_is_right,
    patch=None,
    not_ours=DegradedReason.RESOURCE_CLAIM_TEMPLATE_EXISTS,
)
