"""What a conversion has to say: what was lost, where, and what to do."""

import re
from typing import Any, Final, NamedTuple

from gpusharing.api.text import clip
from gpusharing.findings.converting import NOT_CONVERTED
from gpusharing.findings.finding import Entry, Finding, Reference

_LONGEST: Final = 80
_LONGEST_PATH: Final = 160
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]")


class Remark(NamedTuple):
    entry: Entry
    file: str
    line: int
    field: str
    """Empty: it is about the whole document."""
    fact: str
    remedy: str

    @property
    def finding(self) -> Finding:
        what = f"{shown(self.field, _LONGEST_PATH)}: {self.fact}" if self.field else self.fact
        return self.entry.found(Reference("File", f"{self.file}:{self.line}"), what=what, remedy=_sentence(self.remedy))


class NotConvertibleError(Exception):
    """This document stays unchanged: without what is missing it would mean something else."""

    def __init__(self, file: str, line: int, field: str, fact: str, remedy: str) -> None:
        super().__init__(fact)
        self.file = file
        self.line = line
        self.field = field
        self.fact = fact
        self.remedy = remedy

    @property
    def remark(self) -> Remark:
        return Remark(NOT_CONVERTED, self.file, self.line, self.field, self.fact, self.remedy)


def shown(value: Any, most: int = _LONGEST) -> str:
    """What others wrote, short and printable."""
    return clip(_UNPRINTABLE.sub("?", str(value)[: most + 1]), most)


def _sentence(remedy: str) -> str:
    return f"{remedy[:1].upper()}{remedy[1:]}." if remedy else ""
