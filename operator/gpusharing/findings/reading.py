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
NOT_INSTALLED: Final = Entry(
    code="GSH0102",
    severity=Severity.WARNING,
    title="GPU sharing is not installed",
    sentence="The API server does not serve {resource}, so {missing}.",
    remedy="Install the operator: `kubectl apply -k manifests/base` in its repository.",
)
NOT_MEASURED: Final = Entry(
    code="GSH0103",
    severity=Severity.INFO,
    title="Use is not measured",
    sentence="Memory used and utilization are not known: {why}.",
    remedy="{remedy}",
)
ENTRIES: Final = (NOT_READ, NOT_INSTALLED, NOT_MEASURED)
