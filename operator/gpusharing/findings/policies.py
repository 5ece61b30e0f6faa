"""GSH05xx: SharingPolicies."""

from typing import Final

from gpusharing.api import names
from gpusharing.findings.finding import Entry, Severity

NOT_ACCEPTED: Final = Entry(
    code="GSH0501",
    severity=Severity.ERROR,
    title="Policy not accepted",
    sentence="The operator does not accept the policy ({reason}): {message}",
    remedy="Do what the message says.",
)
SUSPENDED: Final = Entry(
    code="GSH0502",
    severity=Severity.WARNING,
    title="Policy suspended",
    sentence="The policy is suspended ({reason}): its GPUs stay unchanged.",
    remedy="Set {field} in spec.rollout.",
)
MATCHES_NOTHING: Final = Entry(
    code="GSH0503",
    severity=Severity.WARNING,
    title="Policy has no GPUs",
    sentence="The policy has no GPUs ({reason}): {message}",
    remedy="Compare spec.nodes and spec.gpus with `kubectl get nodes --show-labels` and the NodeSharings.",
)
NOT_IN_FORCE: Final = Entry(
    code="GSH0504",
    severity=Severity.WARNING,
    title="Policy not in force on a node",
    sentence="Node {node} ({reason}): {message}",
    remedy="",
)
LOSES_GPUS: Final = Entry(
    code="GSH0505",
    severity=Severity.INFO,
    title="Policy lost GPUs to another",
    sentence="{message}",
    remedy="Raise spec.priority, or select other GPUs.",
)
DEGRADED: Final = Entry(
    code="GSH0506",
    severity=Severity.WARNING,
    title="Policy degraded",
    sentence="{reason}: {message}",
    remedy="Do what the message says.",
)
NOT_SEEN: Final = Entry(
    code="GSH0507",
    severity=Severity.WARNING,
    title="Operator has not seen the policy",
    sentence="The status describes generation {seen}, and the policy has generation {generation}.",
    remedy="Wait some seconds. If it stays so, see that the operator runs: "
    f"`kubectl get pods -A -l {names.PROGRAM_LABEL}={names.OPERATOR}`.",
)
NOT_READY: Final = Entry(
    code="GSH0508",
    severity=Severity.WARNING,
    title="Policy not ready",
    sentence="The policy is not ready ({reason}): {message}",
    remedy="",
)

ENTRIES: Final = (
    NOT_ACCEPTED,
    SUSPENDED,
    MATCHES_NOTHING,
    NOT_IN_FORCE,
    LOSES_GPUS,
    DEGRADED,
    NOT_SEEN,
    NOT_READY,
)
