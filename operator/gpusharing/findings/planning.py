"""GSH07xx: what `plan` finds out about a change."""

from typing import Final

from gpusharing.findings.finding import Entry, Severity

NOT_ACCEPTED: Final = Entry(
    code="GSH0701",
    severity=Severity.ERROR,
    title="Policy that is not accepted",
    sentence="The operator would not accept it: {problem}.",
    remedy="Correct the policy; until then its GPUs stay unchanged.",
)
NOT_READY: Final = Entry(
    code="GSH0702",
    severity=Severity.WARNING,
    title="Policy without effect",
    sentence="It would share no GPU ({reason}): {problem}.",
    remedy="Compare spec.nodes, spec.gpus and spec.priority with the nodes of the cluster.",
)
DEGRADED: Final = Entry(
    code="GSH0703",
    severity=Severity.WARNING,
    title="Policy that is only partly in force",
    sentence="It would be Degraded ({reason}): {problem}.",
    remedy="Do what the message says, or accept that these GPUs differ.",
)
SUSPENDED: Final = Entry(
    code="GSH0704",
    severity=Severity.INFO,
    title="Policy that changes nothing yet",
    sentence="It is suspended ({why}), so its GPUs stay unchanged.",
    remedy="To see what it would change, plan it without that field.",
)
EVICTS: Final = Entry(
    code="GSH0705",
    severity=Severity.WARNING,
    title="Pods would be evicted",
    sentence="Pods of {claims} on {gpus} would be evicted.",
    remedy="To let them end by themselves, set rollout.disruption to WaitForIdle.",
)
STRANDED: Final = Entry(
    code="GSH0706",
    severity=Severity.WARNING,
    title="Workload that would find no place any more",
    sentence="No node would have {what} any more, even if it was idle; in use by {claims}, such as {examples}.",
    remedy="Offer it somewhere, or change these workloads first.",
)
BLOCKED: Final = Entry(
    code="GSH0707",
    severity=Severity.WARNING,
    title="Rollout that would stop",
    sentence="Failing nodes use up rollout.maxUnavailable, so {nodes} would stay unchanged.",
    remedy="Repair the failing nodes, or raise rollout.maxUnavailable.",
)
SKIPPED: Final = Entry(
    code="GSH0708",
    severity=Severity.WARNING,
    title="Object that cannot be read",
    sentence="{objects} cannot be read by this version of the command, and are left out of the plan.",
    remedy="Use the version of the command that the operator has.",
)

ENTRIES: Final = (NOT_ACCEPTED, NOT_READY, DEGRADED, SUSPENDED, EVICTS, STRANDED, BLOCKED, SKIPPED)
