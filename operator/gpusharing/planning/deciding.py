"""The operator's decision on a changed cluster, and what follows from it when all of it is written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gpusharing.api.core import ValidatingAdmissionPolicy
from gpusharing.api.dra import DeviceClass, Namespace
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.cluster.guards.form import REVISION
from gpusharing.core.decision.incremental import Decider
from gpusharing.core.intents import Create, Delete, Intent, Patch, PatchStatus, Target
from gpusharing.findings.finding import Reference
from gpusharing.planning.changes import ObjectChange
from gpusharing.planning.state import State, decode, see_guards

_MOST_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What is to be applied."""

    policies: Iterable[Mapping[str, Any]] = ()
    """As JSON."""
    namespaces: Iterable[Mapping[str, Any]] = ()
    prunes: bool = False
    """Whether policies that are not given are deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    policies: tuple[ObjectChange, ...]
    objects: tuple[ObjectChange, ...]
    """Classes, guards, quotas and templates."""
    classes: Mapping[str, DeviceClass]
    """As they would be."""
    statuses: tuple[PatchStatus, ...]
    """Of the edited policies."""


def decide(state: State, edit: Edit, *, now: str) -> Decided:
    decider = state.decider
    policies = tuple(_apply(decider, edit))
    changes: dict[tuple[str, str, str], ObjectChange] = {}
    classes = dict(decider.state.by_name(DeviceClass))
    # New classes wait until the guards know of the tenants: the guards are written first.
    for _ in range(_MOST_ROUNDS):
        for _ in decider.steps(now=now):
            pass
        written = False
        for intent in decider.pending:
            if isinstance(intent, Create | Patch | Delete):
                change = _described(intent, decider)
                changes[change.object] = _joined(changes.get(change.object), change)
                written |= _write(decider, intent)
        if not written:
            break
        see_guards(decider)
    for intent in decider.pending:
        if intent.target is Target.DEVICE_CLASS and isinstance(intent, Create | Patch | Delete):
            _write_class(classes, intent)
    for _ in decider.fold_statuses(now=now):
        pass
    edited = {change.object.name for change in policies}
    statuses = tuple(
        one for one in decider.pending if isinstance(one, PatchStatus) and one.before.metadata.name in edited
    )
    order = sorted(changes.values(), key=lambda change: change.object)
    return Decided(policies=policies, objects=tuple(order), classes=classes, statuses=statuses)


def _apply(decider: Decider, edit: Edit) -> Iterable[ObjectChange]:
    state = decider.state
    given: set[str] = set()
    for value in edit.policies:
        name = value["metadata"]["name"]
        given.add(name)
        before = state.get(SharingPolicy, ("", name))
        generation = before.metadata.generation + 1 if before else 1
        metadata = {"uid": before.metadata.uid if before else f"planned-{name}", "generation": generation}
        policy = decode(SharingPolicy, {**value, "metadata": {**value["metadata"], **metadata}, "status": {}})
        if before is not None:
            if before.spec == policy.spec:
                continue
            policy = policy.model_copy(update={"status": before.status})
        state.put(SharingPolicy, policy)
        fields = tuple(_differing(before, policy)) if before else ()
        yield ObjectChange(
            object=Reference("SharingPolicy", name), verb="update" if before else "create", details=fields
        )
    for value in edit.namespaces:
        _label(decider, value)
    if edit.prunes:
        for name in sorted(state.by_name(SharingPolicy).keys() - given):
            state.remove(SharingPolicy, ("", name))
            yield ObjectChange(object=Reference("SharingPolicy", name), verb="delete")


def _label(decider: Decider, value: Mapping[str, Any]) -> None:
    """As `kubectl apply`: what the manifest does not name stays."""
    given = decode(Namespace, value)
    before = decider.state.get(Namespace, ("", given.metadata.name))
    if before is not None:
        labels = {**(before.metadata.labels or {}), **(given.metadata.labels or {})}
        given = replace(before, metadata=replace(before.metadata, labels=labels))
    decider.state.put(Namespace, given)


def _differing(before: SharingPolicy, after: SharingPolicy) -> Iterable[str]:
    """Fields of the spec."""
    one, other = before.spec.to_json(), after.spec.to_json()
    for field in sorted(one.keys() | other.keys()):
        if one.get(field) != other.get(field):
            yield f"spec.{field}"


def _described(intent: Create | Patch | Delete, decider: Decider) -> ObjectChange:
    metadata = intent.body["metadata"] if isinstance(intent, Create) else None
    name = metadata["name"] if metadata else intent.before.name  # type: ignore[union-attr]
    namespace = metadata.get("namespace", "") if metadata else intent.before.namespace  # type: ignore[union-attr]
    verb = {Create: "create", Patch: "update", Delete: "delete"}[type(intent)]
    body = {} if isinstance(intent, Delete) else intent.body
    return ObjectChange(
        object=Reference(intent.target.value, name, namespace),
        verb=verb,
        details=tuple(_details(intent, body, decider)),
        body=body,
    )


def _details(intent: Intent, body: Mapping[str, Any], decider: Decider) -> Iterable[str]:
    match intent.target:
        case Target.RESOURCE_QUOTA:
            for resource, amount in sorted((body.get("spec", {}).get("hard") or {}).items()):
                if amount is not None:
                    yield f"{resource.partition('.')[0]}: {amount}"
        case Target.DEVICE_CLASS:
            if resource := body.get("spec", {}).get("extendedResourceName"):
                yield f"extended resource {resource}"
        case Target.ADMISSION_POLICY if isinstance(intent, Patch):
            guard = decider.state.get(ValidatingAdmissionPolicy, ("", intent.before.name))
            before = {one["name"]: one["expression"] for one in guard.spec.get("variables") or ()} if guard else {}
            for one in body["spec"]["variables"]:
                if before.get(one["name"]) != one["expression"] and one["name"] != REVISION:
                    yield one["name"]


def _joined(before: ObjectChange | None, after: ObjectChange) -> ObjectChange:
    if before is None:
        return after
    return replace(after, details=tuple(dict.fromkeys((*before.details, *after.details))))


def _write(decider: Decider, intent: Create | Patch | Delete) -> bool:
    """Puts a guard into the state as it would be written; whether it was one."""
    if not isinstance(intent, Patch) or intent.target is not Target.ADMISSION_POLICY:
        return False
    guard = decider.state.get(ValidatingAdmissionPolicy, ("", intent.before.name))
    if guard is None:
        return False
    decider.state.put(ValidatingAdmissionPolicy, replace(guard, spec={**guard.spec, **intent.body["spec"]}))
    return True


def _write_class(classes: dict[str, DeviceClass], intent: Create | Patch | Delete) -> None:
    match intent:
        case Create(body=body):
            classes[body["metadata"]["name"]] = decode(DeviceClass, body)
        case Patch(before=before, body=body):
            spec = {name: value for name, value in body["spec"].items() if value is not None}
            made = decode(DeviceClass, {"metadata": {"name": before.name}, "spec": spec})
            classes[before.name] = replace(made, metadata=classes[before.name].metadata)
        case Delete(before=before):
            classes.pop(before.name, None)
