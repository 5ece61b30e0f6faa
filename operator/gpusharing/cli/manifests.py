"""The manifests that people name."""

from collections.abc import Iterable, Iterator

from gpusharing.cli.files import PIPE, content_of, named
from gpusharing.validating.validation import Source


def read_sources(given: Iterable[str]) -> Iterator[Source]:
    """Raises CommandError."""
    return (Source("standard input" if name == PIPE else name, content_of(name)) for name in named(given))
