"""An entry of the table of findings, and a finding: an entry with an object and values."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from string import Formatter
from typing import Any, Final, NamedTuple

from gpusharing.api import names

_PAGE: Final = "docs/findings.md"


class Severity(StrEnum):
    ERROR = "Error"
    """Something does not work, and will not by itself."""
    WARNING = "Warning"
    """Something does not work now, or not as expected."""
    INFO = "Info"
    """A fact that explains something."""


class Reference(NamedTuple):
    """An object, as people write it."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row of the table. `{fields}` of sentence and remedy are filled in by each finding."""

    code: str
    """GSH and four digits; never given to another meaning. The first two digits are the area."""
    severity: Severity
    title: str
    sentence: str
    remedy: str
    """An instruction; empty if nothing has to be done."""

    def found(self, object_: Reference, **values: object) -> "Finding":
        return Finding(entry=self, object=object_, values={name: str(value) for name, value in values.items()})

    @property
    def fields(self) -> frozenset[str]:
        parts = [*Formatter().parse(self.sentence), *Formatter().parse(self.remedy)]
        return frozenset(name for _, name, _, _ in parts if name is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    entry: Entry
    object: Reference
    values: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if missing := self.entry.fields - self.values.keys():
            raise ValueError(f"finding {self.entry.code} without {', '.join(sorted(missing))}")

    @property
    def code(self) -> str:
        return self.entry.code

    @property
    def sentence(self) -> str:
        return self.entry.sentence.format_map(self.values)

    @property
    def remedy(self) -> str:
        return self.entry.remedy.format_map(self.values)

    @property
    def docs(self) -> str:
        return f"{_PAGE}#{self.code.lower()}"

    def to_json(self) -> dict[str, Any]:
        reference = {name: value for name, value in self.object._asdict().items() if value}
        return {
            "code": self.code,
            "severity": self.entry.severity.value,
            "object": reference,
            "message": self.sentence,
            **({"remedy": self.remedy} if self.remedy else {}),
            "values": dict(self.values),
            "docs": self.docs,
        }


def ignored_by(annotations: Mapping[str, str]) -> frozenset[str]:
    """The codes that an object's annotation suppresses."""
    given = annotations.get(names.IGNORED_FINDINGS, "")
    return frozenset(code.strip().upper() for code in given.split(",") if code.strip())


def without_ignored(
    findings: Iterable[Finding], *, codes: Collection[str] = (), annotations: Mapping[Reference, Mapping[str, str]]
) -> list[Finding]:
    """`codes`: given by flag, for all objects. `annotations`: of the objects that the findings are about."""
    return [
        one for one in findings if one.code not in codes and one.code not in ignored_by(annotations.get(one.object, {}))
    ]
