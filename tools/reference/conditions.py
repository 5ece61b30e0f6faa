"""docs/reference/conditions.md: every condition and reason, as operator and agent set them."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from gpusharing.agent import problems
from gpusharing.agent.health import conditions as of_agent
from gpusharing.api.reasons import ConditionReason, ExplainedReason
from gpusharing.api.sharing.gpu_status import HEALTHY, Reason
from gpusharing.api.sharing.node_spec import LossReason
from gpusharing.api.sharing.policy_status import LagReason
from gpusharing.core.reasons import REASONS
from reference.tables import cell, heading, table

_HEAD: Final = """\
<!-- Generated from the reasons in operator/gpusharing by `make generate`; do not edit. -->
# Conditions and reasons

Every condition that operator and agent write, with its reasons: what each means, and what to do. The message of a
condition names the objects. `kubectl describe sharingpolicy NAME` and `kubectl get nodesharing NODE -o yaml` show them;
[`gpusharing explain`](../explain.md) puts them together with everything else that concerns a pod.
"""


class Condition(NamedTuple):
    type_: str
    about: str
    reasons: tuple[type[ConditionReason], ...]


_OF_POLICY: Final = {
    "Accepted": "Can the operator act on the policy?",
    "Ready": "Is the policy in force on every node that it selects?",
    "Progressing": "Is a change being applied?",
    "Conflicted": "Did other policies win GPUs that this policy selects?",
    "Degraded": "Is there a problem? The message names every problem; the reason is the first of this list that "
    "applies. `spec.gpus[].refused` of the NodeSharing has the same reasons for the offers of one GPU.",
}
_OF_NODE: Final = (
    Condition(
        of_agent.READY,
        "Has the agent applied the spec, and can it do its work?",
        (of_agent.ReadyReason, problems.Reason, of_agent.CleanupReason),
    ),
    Condition(of_agent.STATE_TRUSTED, "Is the agent's state on the node whole?", (of_agent.TrustReason,)),
)
_OF_GPU: Final = (
    Condition(
        HEALTHY,
        "Can the GPU be allocated? With a reason that leaves it true, the message is news. [Health](../health.md) says "
        "what each reason does and what ends it.",
        (of_agent.HealthyReason, Reason),
    ),
    Condition(of_agent.HELD, "Only while it is true.", (of_agent.HeldReason,)),
)
_OF_CLAIM: Final = (
    Condition(
        of_agent.READY,
        "The message names settings of the claim that are ignored.",
        (of_agent.PreparedReason,),
    ),
    Condition(HEALTHY, "As for the GPU, for the claim's own device.", ()),
)


def page() -> str:
    of_policy = [Condition(type_, _OF_POLICY[type_], (reasons,)) for type_, reasons in REASONS.items()]
    parts = [
        _HEAD,
        *_object("SharingPolicy", "`status.conditions`.", "Policy", of_policy),
        *_lists("SharingPolicy: `status.lagging`", "Nodes on which the policy is not in force yet.", LagReason),
        *_object("NodeSharing: the node", "`status.conditions`.", "Node", _OF_NODE),
        *_object("NodeSharing: a GPU", "`status.gpus[].conditions`.", "GPU", _OF_GPU),
        *_lists("NodeSharing: `spec.gpus[].losers`", "Policies that select the GPU and did not win it.", LossReason),
        *_object("ResourceClaim", "`status.devices[].conditions` of our devices.", "Claim", _OF_CLAIM),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _object(title: str, where: str, prefix: str, conditions: Iterable[Condition]) -> Iterator[str]:
    yield heading(2, title)
    yield f"{where}\n"
    for condition in conditions:
        yield heading(3, f"{prefix} `{condition.type_}`")
        yield f"{condition.about}\n"
        rows = [
            (f"`{one}`", "True" if one.is_true else "False", cell(one.meaning), _remedy(one))
            for reasons in condition.reasons
            for one in reasons
        ]
        if rows:
            yield table(("reason", "status", "meaning", "what to do"), rows)


def _lists(title: str, about: str, reasons: type[ExplainedReason]) -> Iterator[str]:
    yield heading(2, title)
    yield f"{about}\n"
    yield table(("reason", "meaning", "what to do"), [(f"`{one}`", cell(one.meaning), _remedy(one)) for one in reasons])


def _remedy(reason: ExplainedReason) -> str:
    name = reason.page.partition("#")[0]
    more = f"More in [{name}](../{reason.page})." if name else ""
    return " ".join(filter(None, (cell(reason.remedy), more)))
