"""GSH03xx: pods and claims that have devices."""

from typing import Final

from gpusharing.findings.finding import Entry, Severity

DENIED: Final = Entry(
    code="GSH0301",
    severity=Severity.ERROR,
    title="Claim denied",
    sentence="The operator denied claim {claim} on node {node}: {reason}",
    remedy="Do what the reason says. The agent prepares nothing for the claim until then.",
)
NOT_PREPARED: Final = Entry(
    code="GSH0302",
    severity=Severity.WARNING,
    title="Devices not prepared",
    sentence="Node {node} could not prepare the devices: {message}",
    remedy="The kubelet tries again. If it stays so, run `gpusharing explain node {node}`.",
)
SETTING_IGNORED: Final = Entry(
    code="GSH0303",
    severity=Severity.INFO,
    title="Setting ignored",
    sentence="Claim {claim}: {ignored}.",
    remedy="Remove the setting from the claim, or change the policy.",
)
NO_MEMORY_LIMIT: Final = Entry(
    code="GSH0304",
    severity=Severity.INFO,
    title="GPU memory is not limited",
    sentence="{device} is shared in mode TimeSlicing without a memory limit: each claim can use all memory of the GPU.",
    remedy="Set offers.timeSlicing.memory in the SharingPolicy (docs/memory-walls.md).",
)
NOT_APPLIED: Final = Entry(
    code="GSH0305",
    severity=Severity.WARNING,
    title="Settings not applied yet",
    sentence="The agent of node {node} has not prepared claim {claim}.",
    remedy="Wait some seconds. If it stays so, run `gpusharing explain node {node}`.",
)

ENTRIES: Final = (DENIED, NOT_PREPARED, SETTING_IGNORED, NO_MEMORY_LIMIT, NOT_APPLIED)
