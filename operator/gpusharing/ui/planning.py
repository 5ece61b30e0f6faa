"""The plan of policies that somebody has pasted."""

from collections.abc import Callable
from typing import Final

from gpusharing.findings.finding import Severity
from gpusharing.planning.changes import Plan
from gpusharing.planning.deciding import Edit
from gpusharing.planning.plan import REQUIRED, plan
from gpusharing.snapshots.world import World
from gpusharing.ui.picture import PlanError
from gpusharing.validating.reports import text as in_words
from gpusharing.validating.validation import Source, validate

_KINDS: Final = ("SharingPolicy", "Namespace")


def plan_of(text: bytes, read: Callable[[], World]) -> Plan:
    """`read` is called once the text is found to be right. Raises PlanError."""
    edit = _edit(text)
    world = read()
    if missing := [field for field in REQUIRED if field in world.unread]:
        raise PlanError(
            f"A plan needs {', '.join(REQUIRED)}. You may not read {missing[0]}: {world.unread[missing[0]]}"
        )
    return plan(world, edit)


def _edit(text: bytes) -> Edit:
    validation = validate([Source("", text)])
    wrong = [one for one in validation.findings if one.finding.entry.severity is Severity.ERROR]
    if wrong:
        first = wrong[0]
        more = f" ({len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise PlanError(f"Line {first.mark.line}, column {first.mark.column}: {in_words(first)}{more}")
    policies, namespaces = ([one for one in validation.objects if one["kind"] == kind] for kind in _KINDS)
    if not policies and not namespaces:
        raise PlanError("There is no SharingPolicy in this text.")
    return Edit(policies=policies, namespaces=namespaces, prunes=False)
