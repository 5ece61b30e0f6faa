"""What a conversion has to say: what was lost, where, and what to do."""

import re
from enum import StrEnum
from typing import Any, Final, NamedTuple

from gpusharing.api.text import clip

_LONGEST: Final = 80
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]")


class Weight(StrEnum):
    ERROR = "error"
    """The document is unchanged: without what is missing it would mean something else."""
    WARNING = "warning"
    """Something could not be carried over."""
    INFO = "info"
    """Nothing is lost; something works differently, or remains to be done."""


class Remark(NamedTuple):
    weight: Weight
    file: str
    line: int
    field: str
    """Empty: it is about the whole document."""
    fact: str
    remedy: str


class NotConvertibleError(Exception):
    """This document stays unchanged."""

    def __init__(self, line: int, field: str, fact: str, remedy: str) -> None:
        super().__init__(fact)
        self.line = line
        self.field = field
        self.fact = fact
        self.remedy = remedy


def shown(value: Any) -> str:
    """What others wrote, short and printable."""
    return clip(_UNPRINTABLE.sub("?", str(value)[: _LONGEST + 1]), _LONGEST)
