"""Are the admission policies there, as they were installed, and in force?"""

from collections.abc import Iterator
from typing import Final

from pydantic import TypeAdapter, ValidationError

from gpusharing.api.core import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from gpusharing.core.cluster.guards.allocation import ALLOCATION
from gpusharing.core.cluster.guards.claims import CLAIMS, TOLERATIONS
from gpusharing.core.cluster.guards.closing import CLOSING
from gpusharing.core.cluster.guards.in_use import IN_USE
from gpusharing.core.cluster.guards.installation import binds, is_as_installed
from gpusharing.core.cluster.guards.pods import PODS
from gpusharing.core.text import listed
from gpusharing.diagnosing.check import Check, Section, not_checked, of_object
from gpusharing.diagnosing.facts import InstallationFacts
from gpusharing.findings import installations
from gpusharing.findings.finding import Finding
from gpusharing.snapshots.world import Json

OF_CLAIMS: Final = (ALLOCATION, CLAIMS, CLOSING, IN_USE, PODS, TOLERATIONS)
"""What keeps claims off GPUs: their texts are known."""
OF_PROGRAMS: Final = (
    "gpusharing-agent",
    "gpusharing-agent-events",
    "gpusharing-kubelets",
    "gpusharing-operator",
    "gpusharing-operator-events",
    "gpusharing-operator-property",
    "gpusharing-operator-taint-rules",
)
"""What limits our own programs."""
PROBED: Final = (ALLOCATION, CLAIMS, CLOSING, PODS)
"""Which a dry run shows to be in force."""

_POLICY: Final = "ValidatingAdmissionPolicy"
_GUARD: Final = TypeAdapter(ValidatingAdmissionPolicy)
_BINDING: Final = TypeAdapter(ValidatingAdmissionPolicyBinding)


def check_guards(facts: InstallationFacts) -> Iterator[Check]:
    if unread := facts.guards.unread or facts.bindings.unread:
        yield not_checked(Section.GUARDS, "guards", "Texts of admission policies", unread)
    else:
        yield _installed(facts)
    yield _in_force(facts)


def _installed(facts: InstallationFacts) -> Check:
    guards = {one["metadata"]["name"]: one for one in facts.guards.objects}
    bindings = {one["metadata"]["name"]: one for one in facts.bindings.objects}
    wanted = (*OF_CLAIMS, *OF_PROGRAMS)
    missing = [
        *(f"{_POLICY} {name}" for name in wanted if name not in guards),
        *(f"{_POLICY}Binding {name}" for name in wanted if name not in bindings),
    ]
    found: list[Finding] = []
    if missing:
        found.append(of_object(installations.NOT_INSTALLED, _POLICY, "", missing=listed(missing)))
    found += [
        of_object(installations.GUARD_CHANGED, _POLICY, name, kind=_POLICY, name=name)
        for name in OF_CLAIMS
        if name in guards and not _is_as_installed(guards[name])
    ]
    found += [
        of_object(installations.GUARD_CHANGED, f"{_POLICY}Binding", name, kind=f"{_POLICY}Binding", name=name)
        for name in wanted
        if name in bindings and not _binds(bindings[name])
    ]
    return Check(Section.GUARDS, "guards", f"All {len(wanted)} admission policies are as they were installed.", found)


def _is_as_installed(guard: Json) -> bool:
    try:
        return is_as_installed(_GUARD.validate_python(guard))
    except ValidationError:
        return False


def _binds(binding: Json) -> bool:
    if binding["metadata"]["name"] in OF_PROGRAMS:
        spec = binding.get("spec") or {}
        return "Deny" in (spec.get("validationActions") or ()) and not spec.get("matchResources")
    try:
        return binds(_BINDING.validate_python(binding))
    except ValidationError:
        return False


def _in_force(facts: InstallationFacts) -> Check:
    unread = next((one.unread for one in facts.dry_runs if one.unread), "")
    if unread:
        return not_checked(Section.GUARDS, "guards-in-force", "Whether admission policies are in force", unread)
    found = [
        of_object(installations.GUARD_WITHOUT_EFFECT, _POLICY, one.guard, name=one.guard)
        for one in facts.dry_runs
        if not one.is_refused
    ]
    return Check(
        Section.GUARDS, "guards-in-force", "The guards refuse what they have to refuse, as dry runs show.", found
    )
