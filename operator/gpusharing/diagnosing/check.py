"""A line of `doctor`: what was looked at, and what was found."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from gpusharing.core.text import listed
from gpusharing.findings.finding import Entry, Finding, Reference, Severity
from gpusharing.findings.installations import NOT_CHECKED

CLUSTER: Final = Reference("Cluster", "")


class Section(StrEnum):
    KUBERNETES = "Kubernetes"
    NODES = "Nodes"
    OPERATOR = "Operator"
    GUARDS = "Guards"
    AGENTS = "Agents"
    MONITORING = "Monitoring"
    PROBES = "Probes"


class State(StrEnum):
    WELL = "Well"
    NOT_CHECKED = "NotChecked"
    INFO = "Info"
    WARNING = "Warning"
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class Check:
    section: Section
    name: str
    """Stable: reports and scripts know it by this."""
    well: str
    """The line if nothing was found."""
    findings: Sequence[Finding] = ()
    """The first is the line otherwise; others explain it."""

    @property
    def state(self) -> State:
        severities = {one.entry.severity for one in self.findings if one.entry is not NOT_CHECKED}
        for severity, state in _STATES:
            if severity in severities:
                return state
        return State.NOT_CHECKED if self.findings else State.WELL

    def without(self, codes: Collection[str]) -> "Check":
        return replace(self, findings=[one for one in self.findings if one.code not in codes])


_STATES: Final = (
    (Severity.ERROR, State.ERROR),
    (Severity.WARNING, State.WARNING),
    (Severity.INFO, State.INFO),
)


def not_checked(section: Section, name: str, what: str, why: str) -> Check:
    return Check(section, name, "", [NOT_CHECKED.found(CLUSTER, what=what, why=why)])


def of_cluster(entry: Entry, **values: object) -> Finding:
    return entry.found(CLUSTER, **values)


def of_object(entry: Entry, kind: str, name: str, /, **values: object) -> Finding:
    return entry.found(Reference(kind, name), **values)


def nodes(names: Collection[str]) -> str:
    """Such as "nodes a, b, c and 997 more"."""
    return f"node{'' if len(names) == 1 else 's'} {listed(sorted(names))}"
