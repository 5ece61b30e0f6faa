"""Device classes that are missing, that policies keep for their tenants, or of whose policy no GPU has their mode."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from gpusharing.api import names
from gpusharing.api.meta import LabelSelector
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.modes import FIELDS, for_mode
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.text import counted, listed
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


def not_published(name: str, about: Reference, scene: Scene) -> Finding | None:
    """The policy of the class offers the mode, and no GPU has it."""
    ours = of_policy(name)
    policy = scene.policies.get(ours.policy) if ours else None
    if ours is None or policy is None:
        return None
    gpus = policy.status.gpus
    why = "which has no GPUs" if gpus and not gpus.won else "none of whose GPUs has it now"
    return waiting.NOT_PUBLISHED.found(about, class_=name, mode=ours.sharing, policy=ours.policy, why=why)


def reserved(gpus: Mapping[str, int], request: str, about: Reference, scene: Scene, *, are_all: bool) -> Finding:
    """`gpus`: their number, by policy. `are_all`: no other GPU is of the class."""
    count = sum(gpus.values())
    if are_all:
        subject, verb = ("The only GPU", "is") if count == 1 else (f"All {count} GPUs", "are")
    else:
        subject, verb = counted(count, "GPU"), "is" if count == 1 else "are"
    policies = sorted(gpus)
    noun = "SharingPolicy" if len(policies) == 1 else "SharingPolicies"
    return waiting.RESERVED.found(
        about,
        gpus=f"{subject} for request {request} {verb}",
        policies=f"{noun} {listed(policies)}",
        remedy=_of_reserved(policies, about.namespace, scene),
    )


def _of_reserved(policies: Sequence[str], namespace: str, scene: Scene) -> str:
    closed = closed_to(namespace, scene)
    for name in policies:
        policy = scene.policies.get(name)
        if policy and name not in closed and scene.labels_of_namespace(namespace) is not None:
            own = [one for one in offered(policy).split(", ") if one in scene.classes]
            which = f" ({', '.join(own)})" if own else ""
            return f"Namespace {namespace} is a tenant: use a class of the policy{which}."
    whose = "the policy" if len(policies) == 1 else "a policy"
    return f"Ask the owner of {whose} to add namespace {namespace} to its tenants, or wait for other GPUs."


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
