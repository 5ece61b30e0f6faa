"""A diagnosis as people read it: a line for each check, and below it what was found."""

from collections.abc import Iterable, Iterator

from gpusharing.cli.output import Screen, Style
from gpusharing.diagnosing.check import Check, Section


class DiagnosisTable:
    """Knows which section it is in: checks come in parts."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._section: Section | None = None

    def lines(self, checks: Iterable[Check]) -> Iterator[str]:
        for check in checks:
            if check.section is not self._section:
                if self._section is not None:
                    yield ""
                yield self._screen.styled(check.section, Style.BOLD)
                self._section = check.section
            yield from self._check(check)

    def _check(self, check: Check) -> Iterator[str]:
        if not check.findings and check.well:
            mark, *rest = self._screen.wrapped(f"✓ {check.well}", hanging=2).split(" ", 1)
            yield " ".join([self._screen.styled(mark, Style.GREEN), *rest])
        for finding in check.findings:
            yield self._screen.finding(finding)
            yield self._screen.styled(f"  {finding.docs}", Style.DIM)
