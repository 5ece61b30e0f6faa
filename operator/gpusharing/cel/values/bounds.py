"""How large values may become. Kubernetes bounds only their cost, which some functions are not charged for."""

import re
from typing import Final

from gpusharing.cel.errors import BudgetError

LONGEST_TEXT: Final = 1 << 20
"""Characters."""
MOST_PIECES: Final = 1 << 18
"""Of a text that is cut into a list: each is an object of its own."""
LONGEST_NUMERAL: Final = 1000
"""Characters that are read as a number, a version or a time, at little or no cost to Kubernetes."""
_LIKE_A_NUMERAL: Final = re.compile(rf"[0-9A-Za-z\xb5\u03bc.,:+_-]{{{LONGEST_NUMERAL}}}")


def check_text(length: int) -> None:
    if length > LONGEST_TEXT:
        raise BudgetError(f"a string of {length} characters: more than {LONGEST_TEXT} are not supported")


def check_pieces(count: int) -> None:
    if count > MOST_PIECES:
        raise BudgetError(f"a string split into {count} pieces: more than {MOST_PIECES} are not supported")


def check_numeral(text: str) -> None:
    """Lets pass what cannot be read anyway, which will soon be seen."""
    if len(text) > LONGEST_NUMERAL and _LIKE_A_NUMERAL.match(text):
        raise BudgetError(f"a number or time of {len(text)} characters: more than {LONGEST_NUMERAL} are not supported")
