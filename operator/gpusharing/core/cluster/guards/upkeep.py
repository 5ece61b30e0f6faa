"""Writes into the installed guards what policies say: their tenants, limits, classes and extended resources."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gpusharing.api.core import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from gpusharing.api.meta import LabelSelector
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.tenants import Allowance
from gpusharing.core.cluster.decided import ClusterDecision
from gpusharing.core.cluster.device_classes import PolicyClass
from gpusharing.core.cluster.guards import literals
from gpusharing.core.cluster.guards.allocation import ALLOCATION
from gpusharing.core.cluster.guards.claims import CLAIMS
from gpusharing.core.cluster.guards.form import GENERATED, REVISION, new_revision, revision_of
from gpusharing.core.cluster.guards.installation import binds, is_as_installed
from gpusharing.core.cluster.guards.literals import Entries
from gpusharing.core.cluster.guards.namespaces import NAMESPACES
from gpusharing.core.cluster.guards.pods import PODS
from gpusharing.core.intents import Patch, Stage, Target
from gpusharing.core.policies.policy import ExaminedPolicy, rank
from gpusharing.core.reasons import Complaint, DegradedReason
from gpusharing.core.state.seen_entries import Entry, SeenEntries
from gpusharing.core.text import listed

REQUIRED: Final = (ALLOCATION, CLAIMS, PODS)

_VARIABLES: Final = {
    ALLOCATION: {GENERATED.tenants, GENERATED.limits},
    CLAIMS: {GENERATED.tenants, GENERATED.limits, GENERATED.classes},
    PODS: {GENERATED.tenants, GENERATED.classes, GENERATED.resources},
    NAMESPACES: {GENERATED.tenants},
}

# Characters of one variable. CEL reads at most 100,000, and a guard with more is refused as a whole: it would go on
# letting in everybody whom a policy has dropped since.
MOST_OF_ONE_POLICY: Final = 4_096
MOST_TOGETHER: Final = 90_000

Guards = Mapping[str, ValidatingAdmissionPolicy]
Bindings = Mapping[str, ValidatingAdmissionPolicyBinding]

ByVariable = Mapping[str, Entries]


def update_guards(
    policies: Sequence[ExaminedPolicy],
    classes: Sequence[PolicyClass],
    guards: Guards,
    bindings: Bindings,
    seen: SeenEntries,
) -> ClusterDecision:
    """`seen`: what is in force on all API servers. A policy waits for all that the guards know of it."""
    guarded = {item.name: item for item in policies if not item.is_suspended and _needs_guards(item.policy)}
    suspended = frozenset(item.name for item in policies if item.is_suspended)
    known = {name: _known(guards[name], variables) for name, variables in _VARIABLES.items() if name in guards}
    # A mistake never opens the fleet: of a suspended policy the guards know what they knew.
    kept = {
        name: {variable: _of_policies(entries, suspended) for variable, entries in by_variable.items()}
        for name, by_variable in known.items()
        if by_variable.keys() == _VARIABLES[name]
    }
    wanted, full = _fitting(sorted(guarded.values(), key=rank), classes, taken=kept.values())
    pending = set(full)
    patches: list[Patch] = []
    for name, entries in kept.items():
        after = {variable: {**entries[variable], **wanted[variable]} for variable in entries}
        pending |= {policy for policy in guarded if _differ(policy, known[name], after)}
        if name in REQUIRED:
            pending |= _concerned(_as_entries(known[name]) - seen.get(name, frozenset()), guarded)
        before = texts(guards[name])
        rendered = before | {variable: literals.render(after[variable]) for variable in after}
        is_numbered = REVISION not in before or revision_of(before) > 0
        if rendered != before or (not is_numbered and any(after.values())):
            numbered = new_revision(guards[name].metadata.resource_version) if REVISION in before else {}
            patches.append(_patch(guards[name], rendered | numbered))
    complaints: defaultdict[str, list[Complaint]] = defaultdict(list)
    if missing := _missing(guards, bindings):
        pending |= guarded.keys()
        for policy in guarded:
            complaints[policy].append(_guard_missing(missing))
    for policy, complaint in full.items():
        complaints[policy].append(complaint)
    return ClusterDecision(intents=tuple(patches), complaints=complaints, guards_pending=frozenset(pending))


def _needs_guards(policy: SharingPolicy) -> bool:
    return _is_restricted(policy) or _is_limited(policy)


def _is_restricted(policy: SharingPolicy) -> bool:
    return policy.spec.tenants.namespaces != LabelSelector()


def _is_limited(policy: SharingPolicy) -> bool:
    return policy.spec.tenants.allow != Allowance()


def _missing(guards: Guards, bindings: Bindings) -> tuple[str, ...]:
    missing: list[str] = []
    for name in REQUIRED:
        guard, binding = guards.get(name), bindings.get(name)
        if guard is None or not is_as_installed(guard):
            missing.append(f"{Target.ADMISSION_POLICY} {name}")
        if binding is None or not binds(binding):
            missing.append(f"{Target.ADMISSION_POLICY}Binding {name}")
    return tuple(missing)


def _fitting(
    by_rank: Sequence[ExaminedPolicy], classes: Sequence[PolicyClass], *, taken: Iterable[ByVariable]
) -> tuple[Mapping[str, dict[str, str]], Mapping[str, Complaint]]:
    """By variable, the entries that have room beside those that are `taken`; and the policies that have none.

    Such a policy is left out of all guards, also where it was known before. Reserved devices of a policy that the
    allocation guard does not know are refused to everybody.
    """
    wanted: dict[str, dict[str, str]] = {variable: {} for variable in GENERATED}
    sizes = {
        variable: max((literals.size(entries.get(variable, {})) for entries in taken), default=0)
        for variable in GENERATED
    }
    full: dict[str, Complaint] = {}
    by_policy: defaultdict[str, list[PolicyClass]] = defaultdict(list)
    for item in classes:
        by_policy[item.policy.metadata.name].append(item)
    for examined in by_rank:
        entries = _entries(examined.policy, by_policy[examined.name])
        own = {variable: literals.size(entries[variable]) for variable in entries}
        largest = max(own.values())
        if largest > MOST_OF_ONE_POLICY:
            full[examined.name] = _too_large(largest)
        elif any(sizes[variable] + own[variable] > MOST_TOGETHER for variable in own):
            full[examined.name] = _no_room(largest)
        else:
            for variable, size in own.items():
                wanted[variable] |= entries[variable]
                sizes[variable] += size
    return wanted, full


def _entries(policy: SharingPolicy, classes: Sequence[PolicyClass]) -> ByVariable:
    name = policy.metadata.name
    return {
        GENERATED.tenants: {name: literals.tenants(policy)} if _is_restricted(policy) else {},
        GENERATED.limits: {name: literals.limits(policy)} if _is_limited(policy) else {},
        GENERATED.classes: {item.name: literals.of(name) for item in classes},
        GENERATED.resources: {
            item.resource: literals.of(name) for item in classes if item.resource and _is_restricted(policy)
        },
    }


def _known(guard: ValidatingAdmissionPolicy, variables: Iterable[str]) -> ByVariable:
    """The entries of these variables, as far as the guard has them."""
    found = texts(guard)
    return {variable: literals.read(found[variable]) for variable in variables if variable in found}


def _of_policies(entries: Entries, policies: frozenset[str]) -> Entries:
    """Their entries: keyed by their names, or leading to them."""
    theirs = {literals.of(name) for name in policies}
    return {key: entry for key, entry in entries.items() if key in policies or entry in theirs}


def _differ(policy: str, before: ByVariable, after: ByVariable) -> bool:
    only = frozenset({policy})
    return any(_of_policies(before[variable], only) != _of_policies(after[variable], only) for variable in after)


def entries_of(guard: ValidatingAdmissionPolicy) -> frozenset[Entry]:
    """Of one that is required."""
    return _as_entries(_known(guard, _VARIABLES[guard.metadata.name]))


def _as_entries(known: ByVariable) -> frozenset[Entry]:
    return frozenset(
        Entry(variable, key, literal) for variable, entries in known.items() for key, literal in entries.items()
    )


def _concerned(entries: Iterable[Entry], policies: Iterable[str]) -> set[str]:
    """Those of the policies that the entries are about: keyed by their names, or leading to them."""
    by_literal = {literals.of(name): name for name in policies}
    found = {name for entry in entries for name in (entry.key, by_literal.get(entry.literal, ""))}
    return found & set(by_literal.values())


def texts(guard: ValidatingAdmissionPolicy) -> dict[str, Any]:
    """Its variables."""
    return {variable["name"]: variable["expression"] for variable in guard.spec.get("variables") or ()}


def _patch(guard: ValidatingAdmissionPolicy, rendered: Mapping[str, Any]) -> Patch:
    # A merge replaces the list as a whole.
    variables = [{"name": name, "expression": text} for name, text in rendered.items()]
    return Patch(
        target=Target.ADMISSION_POLICY,
        stage=Stage.GUARDS,
        before=guard.metadata,
        body={"spec": {"variables": variables}},
    )


def _guard_missing(guards: Sequence[str]) -> Complaint:
    message = (
        f"{listed(guards)}: missing, changed, or not readable for the operator. Apply manifests/base. Until then the "
        "scheduler may allocate reserved GPUs to any claim, but agents prepare them for tenants only, and no device "
        "classes are created"
    )
    return Complaint(DegradedReason.GUARD_MISSING, message)


def _too_large(size: int) -> Complaint:
    message = (
        f"spec.tenants takes {size:,} characters in the admission policies, but one policy may take "
        f"{MOST_OF_ONE_POLICY:,}: {_UNTIL_THEN}. Use fewer or shorter requirements in spec.tenants.namespaces"
    )
    return Complaint(DegradedReason.GUARDS_FULL, message)


def _no_room(size: int) -> Complaint:
    message = (
        f"spec.tenants takes {size:,} characters in the admission policies, but policies of higher rank leave fewer of "
        f"{MOST_TOGETHER:,}: {_UNTIL_THEN}. Delete or shorten policies with tenants, or raise spec.priority"
    )
    return Complaint(DegradedReason.GUARDS_FULL, message)


_UNTIL_THEN: Final = "its reserved GPUs are not allocated to new claims"
