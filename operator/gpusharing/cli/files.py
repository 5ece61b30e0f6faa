"""Files that commands are given by name."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

PIPE: Final = "-"
"""Standard input."""
_SUFFIXES: Final = (".yaml", ".yml", ".json")


def named(given: Sequence[str]) -> Iterator[str]:
    """Those of folders, too, in the order of their names."""
    for name in given:
        path = Path(name)
        if name != PIPE and path.is_dir():
            yield from sorted(str(one) for one in path.rglob("*") if one.suffix in _SUFFIXES and one.is_file())
        else:
            yield name
