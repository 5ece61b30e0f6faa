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
API_GONE: Final = Entry(
    code="GSH0102",
    severity=Severity.ERROR,
    title="API version not served",
    sentence="The API server does not serve {version}, which {user} needs; it serves {served}.",
    remedy="Use Kubernetes 1.36 or newer, and resource.k8s.io/v1 in manifests (`gpusharing convert`).",
)
NOT_FOUND: Final = Entry(
    code="GSH0103",
    severity=Severity.ERROR,
    title="No such object",
    sentence="There is no {what}.",
    remedy="{hint}",
)

ENTRIES: Final = (NOT_READ, API_GONE, NOT_FOUND)
