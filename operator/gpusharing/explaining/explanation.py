"""What is said about an object."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from gpusharing.findings.finding import Finding, Reference, Severity, without_ignored


class State(StrEnum):
    RUNS = "Runs"
    """Of a GPU, a node or a policy: it is in order."""
    WAITS = "Waits"
    NEVER = "Never"
    """It will not run before somebody changes something."""


class Table(NamedTuple):
    name: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def to_json(self) -> list[dict[str, str]]:
        keys = [_camel(title) for title in self.header]
        return [{key: cell for key, cell in zip(keys, row, strict=True) if cell} for row in self.rows]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    object: Reference
    state: State
    headline: str
    findings: Sequence[Finding] = ()
    """The most helpful first."""
    tables: Sequence[Table] = ()
    scheduler: str = ""
    """Whether the scheduler says the same."""

    def without(self, codes: Collection[str], annotations: Mapping[str, str]) -> "Explanation":
        """What is suppressed by flag, or by the object's annotation, is not reported; the state stays."""
        left = without_ignored(self.findings, codes=codes, annotations={self.object: annotations})
        return replace(self, findings=left)

    def to_json(self) -> dict[str, Any]:
        return {
            "object": {name: value for name, value in self.object._asdict().items() if value},
            "state": self.state.value,
            "message": self.headline,
            "findings": [finding.to_json() for finding in self.findings],
            **({"scheduler": self.scheduler} if self.scheduler else {}),
            **{_camel(table.name): table.to_json() for table in self.tables},
        }


def worst(findings: Sequence[Finding]) -> State:
    severities = {finding.entry.severity for finding in findings}
    if Severity.ERROR in severities:
        return State.NEVER
    return State.WAITS if Severity.WARNING in severities else State.RUNS


def _camel(title: str) -> str:
    first, *rest = title.lower().split()
    return first + "".join(word.title() for word in rest)
