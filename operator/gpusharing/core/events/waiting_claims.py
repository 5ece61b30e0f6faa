"""Claims that a policy keeps waiting, whatever becomes free: the Events for them and their pods.

What the scheduler says of them (it cannot find a device) is true of a full cluster as well. Only claims for classes of
policies are looked at, since of others nobody knows whose GPUs they mean. What is not certain is not said: while a
change comes into force node by node, some GPUs are still offered as before.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gpusharing.api import names
from gpusharing.api.dra import DeviceClass, Namespace, ResourceClaim
from gpusharing.api.meta import ConditionStatus, LabelSelector
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.modes import for_mode
from gpusharing.api.sharing.policy_status import SharingPolicyStatus
from gpusharing.core.events import pods
from gpusharing.core.intents import RecordEvent, Target
from gpusharing.core.policies.policy import ExaminedPolicy
from gpusharing.core.state.cluster_state import WaitingGroup
from gpusharing.core.verdicts.tenancy import in_words


class Why(NamedTuple):
    reason: str
    note: str
    occurrence: str


class ClassState(NamedTuple):
    """Of all claims for a class, whatever their namespaces."""

    examined: ExaminedPolicy
    """Whose class it is."""
    is_in_force: bool
    """As it is now, on each of its nodes."""
    why: Why | None
    """Why nobody is served."""


def examine_class(device_class: str, examined: ExaminedPolicy, status: SharingPolicyStatus) -> ClassState:
    is_in_force = _is_wholly_in_force(examined, status)
    return ClassState(examined, is_in_force, _why_nobody_is_served(device_class, examined, status, is_in_force))


def explain(group: WaitingGroup, state: ClassState, namespace: Namespace | None) -> Why | None:
    """None: nothing certain keeps these claims waiting."""
    return state.why or _why_strangers_are_not(group, state, namespace)


def waiting_events(claim: ResourceClaim, why: Why) -> Sequence[RecordEvent]:
    """On the claim, and on the pod for which it was made from a template."""
    on_claim = RecordEvent(
        target=Target.RESOURCE_CLAIM,
        about=claim.metadata,
        warning=True,
        reason=why.reason,
        action="Wait",
        note=why.note,
        occurrence=why.occurrence,
    )
    return pods.with_pods(on_claim, pods.owners(claim))


def policy_of_class(device_class: DeviceClass) -> str | None:
    owners = device_class.metadata.owner_references
    return next((owner.name for owner in owners if owner.kind == Target.SHARING_POLICY), None)


def _why_nobody_is_served(
    name: str, examined: ExaminedPolicy, status: SharingPolicyStatus, is_in_force: bool
) -> Why | None:
    meant = _meant(name, examined)
    ready = next((condition for condition in status.conditions if condition.type == "Ready"), None)
    if status.gpus is not None and not status.gpus.won and ready and ready.status is ConditionStatus.FALSE:
        # Its message has counts.
        note = f"{meant}, which has none ({ready.reason}): its condition Ready says what to do"
        return Why("PolicyHasNoGpus", note, f"{name} {ready.reason}")
    way = next((way for way in Sharing if names.policy_class(examined.name, way) == name), None)
    if way and is_in_force and for_mode(examined.policy.spec.offers, way) is None:
        note = (
            f"device class {name} requests {way} on GPUs of SharingPolicy {examined.name}, which does not offer {way}"
        )
        return Why("ModeNotOffered", f"{note}; use one of the modes in spec.offers", name)
    return None


def _why_strangers_are_not(group: WaitingGroup, state: ClassState, namespace: Namespace | None) -> Why | None:
    """Their claims were made when the namespace was a tenant, or went around the guards."""
    tenants = state.examined.policy.spec.tenants.namespaces
    if tenants == LabelSelector() or not state.is_in_force:
        return None
    labels = namespace.metadata.labels if namespace else None
    if labels is None or tenants.matches(labels):
        return None
    described = f"is not one of its tenants (spec.tenants.namespaces: {in_words(tenants)})"
    note = f"{_meant(group.device_class, state.examined)}, and namespace {group.namespace} {described}"
    return Why("NotATenant", note, group.device_class)


def _meant(name: str, examined: ExaminedPolicy) -> str:
    return f"device class {name} is for GPUs of SharingPolicy {examined.name}"


def _is_wholly_in_force(examined: ExaminedPolicy, status: SharingPolicyStatus) -> bool:
    ready = next((condition for condition in status.conditions if condition.type == "Ready"), None)
    is_of_now = status.observed_generation == examined.policy.metadata.generation
    return not examined.is_suspended and is_of_now and ready is not None and ready.status is ConditionStatus.TRUE
