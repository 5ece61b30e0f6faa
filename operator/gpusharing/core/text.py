"""Lists in messages for people: the first few by name, and how many there are beside them."""

from collections.abc import Sequence
from typing import Final

SHOWN: Final = 3
"""So many nodes or GPUs are named in a message; the rest is counted."""


def listed(items: Sequence[str], *, of: int | None = None, separator: str = ", ") -> str:
    """`of`: how many there are, where `items` are only the first of them."""
    rest = (len(items) if of is None else of) - SHOWN
    return separator.join(items[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
