"""What the guards that are installed have to be told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpusharing.api.core import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from gpusharing.api.meta import LabelSelector
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.tenants import Allowance
from gpusharing.core.cluster.device_classes import PolicyClass
from gpusharing.core.cluster.guards import literals
from gpusharing.core.cluster.guards.allocation import ALLOCATION
from gpusharing.core.cluster.guards.claims import CLAIMS
from gpusharing.core.cluster.guards.form import GENERATED
from gpusharing.core.cluster.guards.installation import binds, is_as_installed
from gpusharing.core.cluster.guards.literals import Entries
from gpusharing.core.cluster.guards.namespaces import NAMESPACES
from gpusharing.core.cluster.guards.pods import PODS
from gpusharing.core.intents import Intent, Patch, Stage, Target
from gpusharing.core.policies.policy import Candidate

REQUIRED: Final = (ALLOCATION, CLAIMS, PODS)

_VARIABLES: Final = {
    ALLOCATION: {GENERATED.tenants, GENERATED.limits},
    CLAIMS: {GENERATED.tenants, GENERATED.limits, GENERATED.classes},
    PODS: {GENERATED.tenants, GENERATED.resources},
    NAMESPACES: {GENERATED.tenants},
}

KEPT: Final = tuple(_VARIABLES)
"""The guards whose literals the operator writes."""

Guards = Mapping[str, ValidatingAdmissionPolicy]
Bindings = Mapping[str, ValidatingAdmissionPolicyBinding]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    intents: tuple[Intent, ...]
    missing: tuple[str, ...]
    """What of the guards is not installed, or not as ours are: kind and name."""
    untold: frozenset[str]
    """Policies of which the guards do not know what they say now."""


def needs_guards(policy: SharingPolicy) -> bool:
    return _is_restricted(policy) or _is_limited(policy)


def _is_restricted(policy: SharingPolicy) -> bool:
    return policy.spec.tenants.namespaces != LabelSelector()


def _is_limited(policy: SharingPolicy) -> bool:
    return policy.spec.tenants.allow != Allowance()


def upkeep(
    candidates: Sequence[Candidate], classes: Sequence[PolicyClass], guards: Guards, bindings: Bindings
) -> Upkeep:
    guarded = [item.policy for item in candidates if not item.rests and needs_guards(item.policy)]
    suspended = frozenset(item.name for item in candidates if item.rests)
    wanted = _entries(guarded, classes)
    patches: list[Intent] = []
    missing = _missing(guards, bindings)
    untold: set[str] = set()
    for name, variables in _VARIABLES.items():
        guard = guards.get(name)
        texts = _texts(guard) if guard else {}
        if guard is None or not variables <= texts.keys():
            continue
        told = {variable: literals.read(texts[variable]) for variable in variables}
        # A mistake never opens the fleet: of a policy that is not in force as it is, they know what they knew.
        tell = {variable: _kept(told[variable], suspended) | wanted[variable] for variable in variables}
        untold |= {policy.metadata.name for policy in guarded if _is_untold(policy, told, tell)}
        rendered = texts | {variable: literals.render(entries) for variable, entries in tell.items()}
        if rendered != texts:
            patches.append(_patch(guard, rendered))
    if missing:
        untold |= {policy.metadata.name for policy in guarded}
    return Upkeep(intents=tuple(patches), missing=missing, untold=frozenset(untold))


def _missing(guards: Guards, bindings: Bindings) -> tuple[str, ...]:
    missing: list[str] = []
    for name in REQUIRED:
        guard, binding = guards.get(name), bindings.get(name)
        if guard is None or not is_as_installed(guard):
            missing.append(f"{Target.ADMISSION_POLICY} {name}")
        if binding is None or not binds(binding):
            missing.append(f"{Target.ADMISSION_POLICY}Binding {name}")
    return tuple(missing)


def _entries(guarded: Sequence[SharingPolicy], classes: Sequence[PolicyClass]) -> Mapping[str, dict[str, str]]:
    """By variable."""
    by_name = {policy.metadata.name: policy for policy in guarded}
    mine = [item for item in classes if item.policy.metadata.name in by_name]
    return {
        GENERATED.tenants: {name: literals.tenants(item) for name, item in by_name.items() if _is_restricted(item)},
        GENERATED.limits: {name: literals.limits(item) for name, item in by_name.items() if _is_limited(item)},
        GENERATED.classes: {item.name: literals.of(item.policy.metadata.name) for item in mine},
        GENERATED.resources: {
            resource: literals.of(item.policy.metadata.name)
            for item in mine
            if _is_restricted(item.policy)
            for resource in _resources(item)
        },
    }


def _resources(item: PolicyClass) -> list[str]:
    # By this name every class can be asked for.
    implicit = f"deviceclass.resource.kubernetes.io/{item.name}"
    return [implicit, item.resource] if item.resource else [implicit]


def _kept(told: Entries, suspended: frozenset[str]) -> dict[str, str]:
    """Entries of these policies: keyed by their names, or leading to them."""
    theirs = {literals.of(name) for name in suspended}
    return {key: entry for key, entry in told.items() if key in suspended or entry in theirs}


def _is_untold(policy: SharingPolicy, told: Mapping[str, Entries], tell: Mapping[str, Entries]) -> bool:
    only = frozenset({policy.metadata.name})
    return any(_kept(told[variable], only) != _kept(tell[variable], only) for variable in told)


def _texts(guard: ValidatingAdmissionPolicy) -> dict[str, Any]:
    return {variable["name"]: variable["expression"] for variable in guard.spec.get("variables") or ()}


def _patch(guard: ValidatingAdmissionPolicy, texts: Mapping[str, Any]) -> Patch:
    # A merge replaces the list as a whole.
    variables = [{"name": name, "expression": text} for name, text in texts.items()]
    return Patch(
        target=Target.ADMISSION_POLICY,
        stage=Stage.GUARDS,
        before=guard.metadata,
        body={"spec": {"variables": variables}},
    )
