"""What is wrong with a document, before anybody knows in which line."""

from enum import StrEnum
from typing import NamedTuple

Path = tuple[str | int, ...]
"""From the root of a document: keys, and indexes of lists."""


class Code(StrEnum):
    """As in the table of findings."""

    UNREADABLE = "GSH0301"
    NOT_SERVED = "GSH0302"
    UNKNOWN_FIELD = "GSH0303"
    WRONG_TYPE = "GSH0304"
    INVALID_VALUE = "GSH0305"
    MISSING_FIELD = "GSH0306"
    RULE_BROKEN = "GSH0307"
    INVALID_SELECTOR = "GSH0308"
    COSTLY_SELECTOR = "GSH0309"
    INVALID_CONFIG = "GSH0310"
    REFUSED_BY_GUARD = "GSH0311"
    UNKNOWN_REQUEST = "GSH0312"
    REPEATED_KEY = "GSH0313"
    REPEATED_OBJECT = "GSH0314"


class Problem(NamedTuple):
    code: Code
    path: Path
    message: str
    remedy: str | None = None
    """An instruction for this case; None: the one of the table."""
    at_key: bool = False
    """Whether it is about the key that the path ends with, not about its value."""
    offset: int | None = None
    """In the text that the path leads to: the character that it is about."""


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
