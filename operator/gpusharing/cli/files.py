"""The files that people name: files, folders, standard input."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from gpusharing.cli.exits import CommandError
from gpusharing.validating.reading import LARGEST

PIPE: Final = "-"
"""Standard input."""
_SUFFIXES: Final = (".yaml", ".yml", ".json")


def named(given: Iterable[str]) -> Iterator[str]:
    """Those of folders, too, in the order of their names."""
    for name in given:
        path = Path(name)
        if name != PIPE and path.is_dir():
            yield from sorted(str(one) for one in path.rglob("*") if one.suffix in _SUFFIXES and one.is_file())
        else:
            yield name


def content_of(name: str) -> bytes:
    """Of a file that is larger than `LARGEST`, one byte more than that. Raises CommandError."""
    try:
        if name == PIPE:
            return sys.stdin.buffer.read(LARGEST + 1)
        with Path(name).open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror or error}") from error


def text_of(name: str) -> str:
    """Raises CommandError."""
    data = content_of(name)
    if len(data) > LARGEST:
        raise CommandError(f"{name}: larger than {LARGEST // 1024 // 1024} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(f"{name}: not UTF-8") from error
