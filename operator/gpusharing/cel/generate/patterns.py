"""The constant regular expressions of one selector, which are read once."""

from typing import Final

from gpusharing.cel.cost.work import instructions_expected
from gpusharing.cel.errors import BudgetError
from gpusharing.cel.values.regex import MOST_MEMORY, Regex

_MEMORY: Final = 4 << 20
"""Bytes for all of them: reading takes time too, about a fifth of a second for as much."""
_SHARE: Final = 4
_LEAST: Final = 1 << 13
"""Bytes that each may have: enough for what people write."""


class Patterns:
    def __init__(self) -> None:
        self._left = _MEMORY
        self._known: dict[str, Regex | None] = {}
        self.are_as_expected = True
        """Whether all of them are here, and none takes more time than is thought from the length of its text."""

    def regex(self, pattern: str) -> Regex | None:
        """None if it needs too much memory. Raises EvaluationError for what is no regular expression."""
        if pattern not in self._known:
            self._known[pattern] = self._read(pattern)
        return self._known[pattern]

    def _read(self, pattern: str) -> Regex | None:
        memory = max(_LEAST, min(MOST_MEMORY, self._left // _SHARE))
        self._left -= memory
        try:
            regex = Regex(pattern, memory)
        except BudgetError:
            # Kubernetes would take it. If it is ever evaluated here, that may be an error.
            self.are_as_expected = False
            return None
        self.are_as_expected &= regex.program_size <= instructions_expected(len(pattern))
        return regex
