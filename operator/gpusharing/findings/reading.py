"""GSH01xx: what the commands read."""

from typing import Final

from gpusharing.findings.finding import Entry, Severity

NOT_READ: Final = Entry(
    code="GSH0101",
    severity=Severity.INFO,
    title="Objects that you may not read",
    sentence="{resource} may not be read, so {missing}.",
    remedy="Ask an administrator for the right to list {resource}.",
)
ENTRIES: Final = (NOT_READ,)
