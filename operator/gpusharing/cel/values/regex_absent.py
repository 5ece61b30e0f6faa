"""What a regular expression repeats no times: RE2 counts it when it limits repetitions in repetitions, Go does not."""

import re
from collections.abc import Callable
from typing import Final

_ABSENT: Final = r"\{0(?:,0)?\}\??(?![*+?]|\{[0-9])"
_TOKEN: Final = re.compile(
    rf"(?P<quoted>\\Q.*?(?:\\E|\Z))|(?P<absent>{_ABSENT})|(?P<flags>\(\?[a-zA-Z-]*\))"
    r"|(?P<open>\((?:\?[^:)(]*[:>])?)|(?P<close>\))|(?P<between>[*+?|]|\{[0-9]+(?:,[0-9]*)?\})"
    r"|\[\^?\]?(?:\[:[^\]]*:\]|\\[pP]\{[^}]*\}|\\.|[^\]\\])*\]|\\[pP]\{[^}]*\}|\\x\{[^}]*\}|\\x..|\\.|.",
    re.DOTALL,
)
_EMPTY: Final = "(?:)"


def without_absent(pattern: str, is_valid: Callable[[str], bool]) -> str:
    """The same pattern without them, as long as each is right by itself: Go reads it before it drops it."""
    parts: list[str] = []
    opened: list[int] = []
    last: int | None = None
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup
        if kind == "absent" and last is not None and is_valid("".join(parts[last:])):
            parts[last:] = [_EMPTY]
            last = None
            continue
        match kind:
            case "open":
                opened.append(len(parts))
                last = None
            case "close":
                last = opened.pop() if opened else None
            case None:
                last = len(parts)
            case _:
                last = None
        parts.append(token[0])
    return "".join(parts)
