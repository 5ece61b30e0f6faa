"""Texts for people that hold what others have written: as long as they may be, and no longer."""

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

LONGEST_MESSAGE: Final = 4096
"""The API takes conditions of 32,768 characters, and an object has several."""


def clip(text: str, most: int = LONGEST_MESSAGE) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _clipped(value: Any) -> Any:
    return clip(value) if isinstance(value, str) else value


Message = Annotated[str, BeforeValidator(_clipped), Field(max_length=LONGEST_MESSAGE)]
"""Of which no more is kept, whoever wrote it."""
Name = Annotated[str, Field(max_length=253)]
