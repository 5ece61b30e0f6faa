"""GSH04xx: GPUs and nodes."""

from typing import Final

from gpusharing.findings.finding import Entry, Severity

NO_AGENT: Final = Entry(
    code="GSH0401",
    severity=Severity.ERROR,
    title="Node without an agent",
    sentence="Node {node} has no NodeSharing: no agent has run there.",
    remedy="See that the node has the labels that the DaemonSet gpusharing-agent selects.",
)
AGENT_NOT_READY: Final = Entry(
    code="GSH0402",
    severity=Severity.WARNING,
    title="Agent not ready",
    sentence="The agent of node {node} is not ready ({reason}): {message}",
    remedy="Do what the message says, or see the agent's log.",
)
UNHEALTHY: Final = Entry(
    code="GSH0403",
    severity=Severity.ERROR,
    title="GPU unhealthy",
    sentence="{gpu} on node {node} is not healthy ({reason}): {message}",
    remedy="See docs/health.md for {reason}.",
)
OFFER_REFUSED: Final = Entry(
    code="GSH0404",
    severity=Severity.WARNING,
    title="Mode not offered on a GPU",
    sentence="{gpu} does not offer {mode} ({reason}): {message}",
    remedy="{remedy}",
)
CLOSING: Final = Entry(
    code="GSH0405",
    severity=Severity.INFO,
    title="Device is closing",
    sentence="{device} takes no new claim{since}; it is withdrawn when nobody can be using it.",
    remedy="",
)
NO_POLICY: Final = Entry(
    code="GSH0406",
    severity=Severity.INFO,
    title="No policy",
    sentence="No SharingPolicy selects {gpu}: it is offered as it was found.",
    remedy="",
)
NOT_CONFIGURED: Final = Entry(
    code="GSH0407",
    severity=Severity.WARNING,
    title="GPU not configured yet",
    sentence="The operator has not decided on {gpu}: its devices have taint gpusharing.dev/unconfigured.",
    remedy="Wait some seconds. If it stays so, see the operator's log.",
)
NODE_NOT_READY: Final = Entry(
    code="GSH0408",
    severity=Severity.WARNING,
    title="Node not ready",
    sentence="Kubernetes reports node {node} as not ready.",
    remedy="Run `kubectl describe node {node}`.",
)
MIG_NEEDS_RESET: Final = Entry(
    code="GSH0409",
    severity=Severity.INFO,
    title="MIG needs a reset",
    sentence="MIG is not offered on {gpus}: MIG mode is off, and turning it on would reset the GPU.",
    remedy="To allow the reset, select such GPUs in a policy whose spec.offers has only mig; they are reset while "
    "idle.",
)

ENTRIES: Final = (
    NO_AGENT,
    AGENT_NOT_READY,
    UNHEALTHY,
    OFFER_REFUSED,
    CLOSING,
    NO_POLICY,
    NOT_CONFIGURED,
    NODE_NOT_READY,
    MIG_NEEDS_RESET,
)
