"""An explanation as people read it: what it is, why, and in numbers."""

from gpusharing.cli.output import Screen, Style
from gpusharing.explaining.explanation import Explanation, State

_STYLES = {State.RUNS: Style.GREEN, State.WAITS: Style.YELLOW, State.NEVER: Style.RED}


def shown(explanation: Explanation, screen: Screen) -> str:
    headline = screen.wrapped(explanation.headline)
    parts = ["\n".join(screen.styled(line, _STYLES[explanation.state]) for line in headline.splitlines())]
    parts += [screen.finding(finding) for finding in explanation.findings]
    for table in explanation.tables:
        if screen.fits(table.header, table.rows):
            parts.append(screen.table(table.header, table.rows))
        else:
            parts.append(screen.lists(table.header, table.rows))
    if explanation.scheduler:
        parts.append(screen.styled(screen.wrapped(explanation.scheduler), Style.DIM))
    return "\n\n".join(parts)
