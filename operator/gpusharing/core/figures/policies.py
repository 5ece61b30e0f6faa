"""A policy in numbers: its status, and what the status does not tell apart."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gpusharing.api.names import Sharing
from gpusharing.api.sharing.policy_status import LagReason, SharingPolicyStatus
from gpusharing.core.status.contribution import Contribution

_READY: Final = "Ready"


class ConditionNow(NamedTuple):
    type: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFigures:
    conditions: Sequence[ConditionNow]
    won: int
    lost: int
    """GPUs."""
    clients: Mapping[Sharing, int]
    max_clients: int
    nodes: Mapping[str, int]
    """On which the policy is in force, and by the reason why not."""


def policy_figures(status: SharingPolicyStatus, nodes: Iterable[Contribution]) -> PolicyFigures:
    """`nodes`: all that concern the policy."""
    states: Counter[str] = Counter(dict.fromkeys((_READY, *LagReason), 0))
    clients: Counter[Sharing] = Counter(dict.fromkeys(Sharing, 0))
    for node in nodes:
        if state := _state(node):
            states[state] += 1
        for sharing, count in node.clients_by_mode.items():
            clients[sharing] += count
    return PolicyFigures(
        conditions=tuple(ConditionNow(one.type, one.status, one.reason) for one in status.conditions),
        won=status.gpus.won if status.gpus else 0,
        lost=status.gpus.lost if status.gpus else 0,
        clients=clients,
        max_clients=status.clients.max if status.clients else 0,
        nodes=states,
    )


def _state(node: Contribution) -> str | None:
    """A node on which the policy is in force can have a GPU that fails."""
    if node.lagging is not None:
        return node.lagging.reason
    if node.failing:
        return LagReason.FAILING
    return _READY if node.is_ready else None
