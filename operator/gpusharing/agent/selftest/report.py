"""What a selftest found, as text that one can paste into an issue."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from gpusharing.nvidia.errors import HardwareError, NotSupportedError

T = TypeVar("T")


class Outcome(StrEnum):
    OK = "ok"
    NOT_HERE = "not here"
    """The node or the GPU cannot do it; that is no failure."""
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Check:
    outcome: Outcome
    what: str
    detail: str
    seconds: float


@dataclass(slots=True)
class Section:
    title: str
    checks: list[Check] = field(default_factory=list)

    def note(self, outcome: Outcome, what: str, detail: str = "", seconds: float = 0) -> None:
        self.checks.append(Check(outcome, what, detail, seconds))

    async def check(
        self,
        what: str,
        question: Callable[[], Awaitable[T]],
        tell: Callable[[T], str] = str,
        *,
        is_here: Callable[[T], bool] = lambda _: True,
    ) -> T | None:
        """Asks, times and writes it down; None where there was no answer."""
        began = time.monotonic()
        try:
            answer = await question()
        except NotSupportedError as error:
            self.note(Outcome.NOT_HERE, what, str(error), time.monotonic() - began)
        except (HardwareError, OSError) as error:
            self.note(Outcome.FAILED, what, f"{type(error).__name__}: {error}", time.monotonic() - began)
        else:
            outcome = Outcome.OK if is_here(answer) else Outcome.NOT_HERE
            self.note(outcome, what, tell(answer), time.monotonic() - began)
            return answer
        return None


@dataclass(slots=True)
class Report:
    sections: list[Section] = field(default_factory=list)

    def section(self, title: str) -> Section:
        self.sections.append(Section(title))
        return self.sections[-1]

    @property
    def has_failed(self) -> bool:
        return any(check.outcome is Outcome.FAILED for section in self.sections for check in section.checks)

    def text(self) -> str:
        return "\n".join(line for section in self.sections for line in _lines(section)) + "\n"


def _lines(section: Section) -> list[str]:
    rows = [
        f"| {check.outcome} | {check.what} | {_in_cell(check.detail)} | {check.seconds * 1000:.1f} ms |"
        for check in section.checks
    ]
    return [f"### {section.title}", "", "| | what | answer | time |", "|---|---|---|---|", *rows, ""]


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
