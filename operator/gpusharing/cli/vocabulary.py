"""Words that are in our own sources: in a log they are no names of tenants."""

import re
from collections.abc import Iterator
from functools import cache
from importlib.abc import Traversable
from importlib.resources import files
from typing import Final

_WORD: Final = re.compile(r"\w(?:[\w-]*\w)?")
_EXAMPLE: Final = re.compile(r"(?=.*-)(?=.*[0-9])")
"""`train-7`: examples are called as objects of people are."""
_SUFFIX: Final = ".py"


@cache
def vocabulary() -> frozenset[str]:
    """Few where there are no sources, as in the image: then more is replaced."""
    words = {word for text in _texts(files("gpusharing")) for word in _WORD.findall(text)}
    return frozenset(word for word in words if not _EXAMPLE.match(word))


def _texts(folder: Traversable) -> Iterator[str]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _texts(one)
        elif one.name.endswith(_SUFFIX):
            yield one.read_text()
