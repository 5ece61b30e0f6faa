"""What is wrong with a document, before anybody knows in which line."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from gpusharing.findings import validating
from gpusharing.findings.finding import Entry, Finding, Reference

Path = tuple[str | int, ...]
"""From the root of a document: keys, and indexes of lists."""


_REMEDIES: Final[Mapping[str, str]] = {
    validating.UNREADABLE.code: "Correct the YAML at this place.",
    validating.UNKNOWN_FIELD.code: "Remove it.",
    validating.INVALID_SELECTOR.code: "Correct the expression; docs/cel.md says what selectors can do.",
    validating.COSTLY_SELECTOR.code: "Replace loops (all, exists, map) by comparisons.",
    validating.INVALID_CONFIG.code: "Correct the config; docs/claims.md says what it can have.",
}


class Problem(NamedTuple):
    entry: Entry
    path: Path
    message: str
    remedy: str | None = None
    """A sentence: an instruction for this case. None: the usual one."""
    at_key: bool = False
    """Whether it is about the key that the path ends with, not about its value."""
    offset: int | None = None
    """In the text that the path leads to: the character that it is about."""
    guard: str = ""
    """The admission policy that refuses it."""

    def about(self, object_: Reference) -> Finding:
        remedy = self.remedy or _REMEDIES.get(self.entry.code, "Correct it.")
        field = in_words(self.path)
        return self.entry.found(
            object_, field=field, problem=self.message.rstrip(".?"), remedy=remedy, guard=self.guard
        )


def in_words(path: Path) -> str:
    """As the API server writes it: spec.devices.requests[0].name."""
    text = ""
    for part in path:
        match part:
            case int():
                text += f"[{part}]"
            case str() if not text:
                text = part
            case str() if part.isidentifier() or part.replace("-", "_").isidentifier():
                text += f".{part}"
            case str():
                text += f"[{part}]"
    return text or "the document"
