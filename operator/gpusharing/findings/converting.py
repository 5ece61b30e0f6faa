"""GSH08xx: what `convert` says of manifests and configs."""

from typing import Final

from gpusharing.findings.finding import Entry, Severity

NOT_CONVERTED: Final = Entry(
    code="GSH0801",
    severity=Severity.ERROR,
    title="Not converted",
    sentence="The document is left unchanged: {what}.",
    remedy="{remedy}",
)
NOT_CARRIED_OVER: Final = Entry(
    code="GSH0802",
    severity=Severity.WARNING,
    title="Not carried over",
    sentence="{what}.",
    remedy="{remedy}",
)
DIFFERENT: Final = Entry(
    code="GSH0803",
    severity=Severity.INFO,
    title="Different from before",
    sentence="{what}.",
    remedy="{remedy}",
)

ENTRIES: Final = (NOT_CONVERTED, NOT_CARRIED_OVER, DIFFERENT)
