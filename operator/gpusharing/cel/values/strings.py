"""The functions of CEL's strings extension, in its version 2. Characters are code points."""

import string
from typing import Any, Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.values.bounds import check_pieces, check_text

_WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_TO_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_TO_UPPER: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_ESCAPES: Final = str.maketrans({
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", '"': r"\"", "\\": r"\\",
})  # fmt: skip
_EMPTY_ANYWHERE: Final = 36
"""The last minor version of Kubernetes that finds the empty text wherever one starts to look."""


def char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def index_of(text: str, part: str, start: int, minor: int) -> int:
    """The first index from `start` on, or -1."""
    if not part:
        return _index_of_nothing(text, start, minor)
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start)


def last_index_of(text: str, part: str, start: int, minor: int) -> int:
    """The last index up to `start`, or -1, which it also is if `start` lies behind the end."""
    if not part:
        return _index_of_nothing(text, start, minor)
    if start < 0:
        raise _out_of_range(start)
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def _index_of_nothing(text: str, start: int, minor: int) -> int:
    if minor <= _EMPTY_ANYWHERE:
        return start
    if start < 0:
        raise _out_of_range(start)
    return min(start, len(text))


def lower_ascii(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_TO_LOWER)


def upper_ascii(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_TO_UPPER)


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """A negative limit is none. The empty text is found between all characters, and at both ends."""
    if len(new) > len(old):
        count = text.count(old)
        if 0 <= limit < count:
            count = limit
        check_text(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, limit)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """At most `limit` pieces, the last of which is the rest; a negative limit is none."""
    if limit == 0:
        return []
    if not separator:
        return _characters(text, limit)
    pieces = text.count(separator) + 1
    check_pieces(pieces if limit < 0 else min(pieces, limit))
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _characters(text: str, limit: int) -> list[str]:
    if limit < 0 or limit >= len(text):
        check_pieces(len(text))
        return list(text)
    check_pieces(limit)
    return [*text[: limit - 1], text[limit - 1 :]]


def substring(text: str, start: int, end: int | None = None) -> str:
    length = len(text)
    if end is None:
        end = length
    elif start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= length:
        raise _out_of_range(start)
    if not 0 <= end <= length:
        raise _out_of_range(end)
    return text[start:end]


def trim(text: str) -> str:
    return text.strip(_WHITE_SPACE)


def join(items: list[Any], separator: str = "") -> str:
    try:
        length = sum(map(str.__len__, items))
    except TypeError:
        raise EvaluationError("join: invalid input: an item is no string") from None
    check_text(length + len(separator) * (len(items) - 1))
    return separator.join(items)


def quote(text: str) -> str:
    """As a literal of CEL."""
    quoted = text.translate(_ESCAPES)
    check_text(len(quoted) + 2)
    return f'"{quoted}"'


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")
