"""GSH06xx: what `validate` finds in manifests."""

from typing import Final

from gpusharing.findings.finding import Entry, Severity

UNREADABLE: Final = Entry(
    code="GSH0601",
    severity=Severity.ERROR,
    title="No YAML",
    sentence="The file cannot be read: {problem}.",
    remedy="{remedy}",
)
NOT_SERVED: Final = Entry(
    code="GSH0602",
    severity=Severity.ERROR,
    title="API version not served",
    sentence="Kubernetes {problem}.",
    remedy="{remedy}",
)
UNKNOWN_FIELD: Final = Entry(
    code="GSH0603",
    severity=Severity.ERROR,
    title="Unknown field",
    sentence="{field} {problem}.",
    remedy="{remedy}",
)
WRONG_TYPE: Final = Entry(
    code="GSH0604",
    severity=Severity.ERROR,
    title="Wrong type",
    sentence="{field} {problem}.",
    remedy="{remedy}",
)
INVALID_VALUE: Final = Entry(
    code="GSH0605",
    severity=Severity.ERROR,
    title="Invalid value",
    sentence="{field} {problem}.",
    remedy="{remedy}",
)
MISSING_FIELD: Final = Entry(
    code="GSH0606",
    severity=Severity.ERROR,
    title="Missing field",
    sentence="{field} {problem}.",
    remedy="{remedy}",
)
RULE_BROKEN: Final = Entry(
    code="GSH0607",
    severity=Severity.ERROR,
    title="Fields that contradict each other",
    sentence="{field}: {problem}.",
    remedy="{remedy}",
)
INVALID_SELECTOR: Final = Entry(
    code="GSH0608",
    severity=Severity.ERROR,
    title="Selector that is not CEL",
    sentence="{field}: {problem}.",
    remedy="{remedy}",
)
COSTLY_SELECTOR: Final = Entry(
    code="GSH0609",
    severity=Severity.ERROR,
    title="Selector that costs too much",
    sentence="{field} {problem}.",
    remedy="{remedy}",
)
INVALID_CONFIG: Final = Entry(
    code="GSH0610",
    severity=Severity.ERROR,
    title="Config that NVIDIA's decoder refuses",
    sentence="{field}: {problem}.",
    remedy="{remedy}",
)
REFUSED_BY_GUARD: Final = Entry(
    code="GSH0611",
    severity=Severity.ERROR,
    title="Refused by an admission policy",
    sentence="ValidatingAdmissionPolicy {guard}: {problem}.",
    remedy="{remedy}",
)
UNKNOWN_REQUEST: Final = Entry(
    code="GSH0612",
    severity=Severity.ERROR,
    title="Reference to an unknown request",
    sentence="{field}: {problem}.",
    remedy="{remedy}",
)
REPEATED_KEY: Final = Entry(
    code="GSH0613",
    severity=Severity.WARNING,
    title="Key that is given twice",
    sentence="{field} is given twice, and only the last one counts.",
    remedy="Remove one of them.",
)
REPEATED_OBJECT: Final = Entry(
    code="GSH0614",
    severity=Severity.WARNING,
    title="Object that is given twice",
    sentence="{object} is in line {line} of this file already, and the one that is applied last counts.",
    remedy="Rename or remove one of them.",
)

ENTRIES: Final = (
    UNREADABLE,
    NOT_SERVED,
    UNKNOWN_FIELD,
    WRONG_TYPE,
    INVALID_VALUE,
    MISSING_FIELD,
    RULE_BROKEN,
    INVALID_SELECTOR,
    COSTLY_SELECTOR,
    INVALID_CONFIG,
    REFUSED_BY_GUARD,
    UNKNOWN_REQUEST,
    REPEATED_KEY,
    REPEATED_OBJECT,
)
