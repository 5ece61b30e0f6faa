"""Texts for people that hold what others have written: as long as they may be, and no longer."""

from typing import Final

MESSAGE: Final = 4096
"""Characters of a condition's message. The API takes 32,768 of them, and an object has several."""


def clip(text: str, most: int = MESSAGE) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
