"""Reasons in a status: words that programs depend on, each with what people want to know about it.

The page that explains reasons is generated from these (`tools/reference/conditions.py`), and a condition gets its
status from its reason. So there is no second list.
"""

from enum import StrEnum
from typing import Self


class ExplainedReason(StrEnum):
    meaning: str
    remedy: str
    """Empty: there is nothing to do."""
    page: str
    """Says more: a page of docs/, with an anchor or without."""

    def __new__(cls, word: str, *_: object) -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        return member

    def __init__(self, _word: str, meaning: str = "", remedy: str = "", page: str = "") -> None:
        self.meaning, self.remedy, self.page = meaning, remedy, page


class ConditionReason(ExplainedReason):
    is_true: bool
    """The status of a condition with this reason."""

    def __init__(self, word: str, is_true: bool = False, meaning: str = "", remedy: str = "", page: str = "") -> None:
        super().__init__(word, meaning, remedy, page)
        self.is_true = is_true
