"""Prices of cel-go, and what Kubernetes allows a device selector."""

import math
from typing import Final

COST_LIMIT: Final = 1_000_000
"""Units: of the estimate, over which the API server refuses an expression, and of what an evaluation may use up."""

IDENTIFIER_OR_SELECT: Final = 1
NEW_LIST: Final = 10
NEW_MAP: Final = 30
NEW_MESSAGE: Final = 40
PER_CHARACTER: Final = 0.1
PER_CHARACTER_OF_PATTERN: Final = 0.25


def per_character(size: int, price: float = PER_CHARACTER) -> int:
    return math.ceil(float(size) * price)


def of_pattern(text: int, pattern: int) -> int:
    """Of applying a regular expression. An empty text takes some work too."""
    return per_character(1 + text) * per_character(pattern, PER_CHARACTER_OF_PATTERN)
