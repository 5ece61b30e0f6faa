"""Regular expressions as Go has them, by RE2, which agrees with Go once the few differences in syntax are out."""

import re
from typing import Any, Final

from gpusharing.cel.errors import BudgetError, EvaluationError
from gpusharing.cel.values.bounds import check_pieces
from gpusharing.cel.values.regex_absent import without_absent
from gpusharing.cel.values.regex_syntax import translated

MOST_MEMORY: Final = 1 << 20
"""Bytes of one regular expression: for its program, and for what RE2 learns of it while it matches."""
_MOST_STEPS: Final = 1 << 23
"""Bytes of the text by instructions of the program: a tenth of a second if RE2 needs them all."""
_MOST_SEARCHES: Final = 8
"""Of a whole text, while all matches are looked for: each search may reach the end."""
_NOWHERE: Final = -1
_REMEMBERED: Final = 32
_LONGEST_REMEMBERED: Final = 64
"""What an attribute may be long: the GPUs of a fleet are of few models, and RE2 takes longer than all the rest."""
_NOT_UTF8: Final = re.compile("[\ud800-\udfff]")


class Regex:
    """Unlike its text, `program_size` tells what it may cost in time and memory."""

    __slots__ = ("_answers", "_longest", "_match", "_unanchored", "program_size")

    def __init__(self, pattern: str, memory: int = MOST_MEMORY) -> None:
        """Raises EvaluationError for what is no regular expression, BudgetError for one that needs more memory."""
        # Most programs have no use for it. Its public interface is five times slower.
        from re2 import Options, _re2  # type: ignore[import-untyped]  # noqa: PLC0415

        options = Options()
        options.log_errors = False
        options.max_mem = memory
        options.never_capture = True

        def compiled(pattern: str) -> Any:
            return _re2.RE2(_bytes(pattern), options)

        text = translated(pattern)
        expression = compiled(text)
        if not expression.ok() and b"repetition size" in expression.error():
            expression = compiled(without_absent(text, lambda part: compiled(part).ok()))
        if not expression.ok():
            problem = expression.error().decode("utf-8", "replace")
            # This one Kubernetes would take.
            kind = BudgetError if "too large" in problem else EvaluationError
            raise kind(f"error parsing regexp: {problem}")
        self._answers: dict[str, bool] = {}
        self._match = expression.Match
        self._unanchored = _re2.RE2.Anchor.UNANCHORED
        self.program_size: int = expression.ProgramSize()
        self._longest = _MOST_STEPS // max(1, self.program_size)

    def matches(self, text: str) -> bool:
        """Anywhere in the text."""
        known = self._answers.get(text)
        if known is not None:
            return known
        answer = self._matches(text)
        if len(self._answers) < _REMEMBERED and len(text) <= _LONGEST_REMEMBERED:
            self._answers[text] = answer
        return answer

    def _matches(self, text: str) -> bool:
        raw = _bytes(text)
        length = len(raw)
        if length > self._longest:
            raise _too_long()
        start, _ = self._match(self._unanchored, raw, 0, length)[0]
        if 0 < start < length and raw[start] & 0xC0 == 0x80:
            return self._search(raw, 0)[0] != _NOWHERE
        return bool(start != _NOWHERE)

    def find(self, text: str) -> str:
        """The first match, or nothing."""
        raw = _bytes(text)
        start, end = self._search(raw, 0)
        return raw[start:end].decode() if start != _NOWHERE else ""

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """Up to `limit` matches, none of which is the empty one right after another; a negative limit is none."""
        raw = _bytes(text)
        found: list[str] = []
        at = searched = 0
        last_end = _NOWHERE
        while at <= len(raw) and (limit < 0 or len(found) < limit):
            searched += len(raw) - at
            if searched > _MOST_SEARCHES * self._longest:
                raise _too_long()
            start, end = self._search(raw, at)
            if start == _NOWHERE:
                break
            if end > at or start != last_end:
                found.append(raw[start:end].decode())
                check_pieces(len(found))
            at = end if end > at else _next_character(raw, at)
            last_end = end
        return found

    def _search(self, raw: bytes, at: int) -> tuple[int, int]:
        length = len(raw)
        if length > self._longest:
            raise _too_long()
        start, end = self._match(self._unanchored, raw, at, length)[0]
        while start > 0 and _is_inside_character(raw, start):
            # RE2 finds \B there. Nothing can begin at such a place in Go.
            start, end = self._match(self._unanchored, raw, start + 1, length)[0]
        return start, end


def _too_long() -> BudgetError:
    return BudgetError("a text too long for its regular expression")


def _is_inside_character(raw: bytes, at: int) -> bool:
    return at < len(raw) and raw[at] & 0xC0 == 0x80


def _next_character(raw: bytes, at: int) -> int:
    at += 1
    while _is_inside_character(raw, at):
        at += 1
    return at


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Bytes that are no UTF-8 match as Go's replacement character.
        return _NOT_UTF8.sub("\ufffd", text).encode()
