"""Objects that cannot be read: each is skipped by itself, named in the log and counted."""

from collections import Counter
from typing import Any, Final

import pydantic
import structlog

log = structlog.get_logger(__name__)

_SHOWN_PROBLEMS: Final = 3
_LONGEST: Final = 1024


class Unreadables:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """By kind. The same object counts each time that it comes."""

    def skip(self, kind: str, name: str, problem: Exception | str) -> None:
        self.counts[kind] += 1
        sentence = _sentence(problem) if isinstance(problem, pydantic.ValidationError) else str(problem)
        log.error("object unreadable", kind=kind, object=name[:_LONGEST], error=sentence[:_LONGEST])


def display_name(value: Any) -> str:
    """Of an object as JSON, whatever is wrong with it."""
    match value:
        case {"metadata": dict(metadata)}:
            return "/".join(filter(None, (str(metadata.get("namespace", "")), str(metadata.get("name", "?")))))
        case _:
            return "?"


def _sentence(error: pydantic.ValidationError) -> str:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    problems = [f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in details]
    rest = len(problems) - _SHOWN_PROBLEMS
    return "; ".join(problems[:_SHOWN_PROBLEMS] + ([f"and {rest} more"] if rest > 0 else []))
