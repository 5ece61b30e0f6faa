"""Device classes that are missing, or that are of a policy that does not offer their mode."""

from difflib import get_close_matches
from typing import NamedTuple

from gpusharing.api import names
from gpusharing.api.meta import LabelSelector
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.modes import FIELDS, for_mode
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.verdicts.tenancy import in_words
from gpusharing.explaining.scene import Scene
from gpusharing.findings import waiting
from gpusharing.findings.finding import Finding, Reference


class OfPolicy(NamedTuple):
    """A class by its name."""

    policy: str
    sharing: Sharing


def of_policy(name: str) -> OfPolicy | None:
    for sharing in Sharing:
        policy = name.removesuffix(names.policy_class("", sharing))
        if policy != name:
            return OfPolicy(policy, sharing)
    return None


def missing(name: str, request: str, about: Reference, scene: Scene) -> Finding:
    ours = of_policy(name)
    policy = scene.policies.get(ours.policy) if ours else None
    if ours and policy:
        why, remedy = _why_not_made(policy, ours.sharing)
    else:
        why = f", nor does a SharingPolicy {ours.policy}" if ours and "policies" not in scene.world.unread else ""
        close = get_close_matches(name, scene.classes, n=1)
        remedy = f"Did you mean {close[0]}? " if close else ""
        known = ", ".join(sorted(scene.classes)) or "none"
        remedy += f"Classes of this cluster: {known}."
    return waiting.NO_CLASS.found(about, request=request, class_=name, why=why, remedy=remedy)


def _why_not_made(policy: SharingPolicy, sharing: Sharing) -> tuple[str, str]:
    name = policy.metadata.name
    if not policy.spec.classes.create:
        return (
            f": SharingPolicy {name} has classes.create: false",
            f"Set classes.create: true in SharingPolicy {name}, or use a class of another name.",
        )
    if for_mode(policy.spec.offers, sharing) is None:
        return (
            f": SharingPolicy {name} does not offer {sharing}",
            f"Use a class of a mode that it offers ({offered(policy)}).",
        )
    return (
        f", although SharingPolicy {name} offers {sharing}: the operator has not created it yet",
        f"Run `gpusharing explain policy {name}`.",
    )


def offered(policy: SharingPolicy) -> str:
    classes = [
        names.policy_class(policy.metadata.name, one)
        for one in Sharing
        if for_mode(policy.spec.offers, one) is not None
    ]
    return ", ".join(classes)


def not_offered(name: str, about: Reference, scene: Scene) -> Finding | None:
    """The class is there, but its policy has closed."""
    ours = of_policy(name)
    policy = scene.policies.get(ours.policy) if ours else None
    if ours is None or policy is None or for_mode(policy.spec.offers, ours.sharing) is not None:
        return None
    return waiting.MODE_NOT_OFFERED.found(
        about,
        class_=name,
        mode=ours.sharing,
        policy=ours.policy,
        offered=offered(policy),
        field=FIELDS[ours.sharing],
    )


def closed_to(namespace: str, scene: Scene) -> dict[str, LabelSelector]:
    """Policies of whose tenants the namespace is none; none if its labels may not be read."""
    labels = scene.labels_of_namespace(namespace)
    if labels is None:
        return {}
    tenants = {name: policy.spec.tenants.namespaces for name, policy in scene.policies.items()}
    return {name: one for name, one in tenants.items() if one != LabelSelector() and not one.matches(labels)}


def not_a_tenant(policy: str, namespace: str, about: Reference, scene: Scene) -> Finding:
    tenants = scene.policies[policy].spec.tenants.namespaces
    return waiting.NOT_A_TENANT.found(about, policy=policy, tenants=in_words(tenants), namespace=namespace)
