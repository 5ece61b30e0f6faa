"""The files that people name: files, folders, standard input."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from gpusharing.cli.exits import CommandError
from gpusharing.validating.reading import LARGEST
from gpusharing.validating.validation import Source

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_PIPE: Final = "-"


def read_sources(given: Iterable[str]) -> Iterator[Source]:
    """Raises CommandError."""
    return map(_read, _named(given))


def _named(given: Iterable[str]) -> Iterator[str]:
    for name in given:
        path = Path(name)
        if name != _PIPE and path.is_dir():
            yield from sorted(str(one) for one in path.rglob("*") if one.suffix in _SUFFIXES and one.is_file())
        else:
            yield name


def _read(name: str) -> Source:
    try:
        if name == _PIPE:
            # One byte more than is taken: then it is told that it is too large.
            return Source("standard input", sys.stdin.buffer.read(LARGEST + 1))
        with Path(name).open("rb") as file:
            return Source(name, file.read(LARGEST + 1))
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror or error}") from error
