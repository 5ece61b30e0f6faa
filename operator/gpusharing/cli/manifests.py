"""The manifests that people name."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gpusharing.cli.exits import CommandError
from gpusharing.cli.files import PIPE, content_of, named
from gpusharing.findings.finding import Severity
from gpusharing.validating.reports import text
from gpusharing.validating.validation import Source, validate


def read_sources(given: Iterable[str]) -> Iterator[Source]:
    """Raises CommandError."""
    return (Source("standard input" if name == PIPE else name, content_of(name)) for name in named(given))


def read_objects(given: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """All objects, of whatever kind. Raises CommandError, also for one that the API server would refuse."""
    validation = validate(read_sources(given))
    wrong = [one for one in validation.findings if one.finding.entry.severity is Severity.ERROR]
    if wrong:
        first = wrong[0]
        more = f" (and {len(wrong) - 1} more: run `gpusharing validate`)" if len(wrong) > 1 else ""
        raise CommandError(f"{first.file}:{first.mark.line}:{first.mark.column}: {text(first)}{more}")
    return validation.objects
