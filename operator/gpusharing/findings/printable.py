"""What others wrote, for a terminal."""

import re
from typing import Final

_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """It may not move the cursor, nor change colours."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
