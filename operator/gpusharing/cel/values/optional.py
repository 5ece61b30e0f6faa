"""The value that may be absent."""

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Optional:
    """`optional.of(value)`; the absent one is the single object `NONE`."""

    value: Any


NONE: Final = Optional(None)
