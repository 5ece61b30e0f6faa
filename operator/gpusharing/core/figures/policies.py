"""A policy in numbers, as it was when its status was made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpusharing.api.names import Sharing
from gpusharing.api.sharing.policy_status import LagReason, SharingPolicyStatus
from gpusharing.core.status.contribution import READY
from gpusharing.core.status.totals import Totals


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
    """On which the policy is in force, and by the reason why not yet."""


def policy_figures(status: SharingPolicyStatus, totals: Totals) -> PolicyFigures:
    return PolicyFigures(
        conditions=tuple(ConditionNow(one.type, one.status, one.reason) for one in status.conditions),
        won=totals.won,
        lost=len(totals.lost),
        clients={sharing: totals.clients[sharing] for sharing in Sharing},
        max_clients=totals.places,
        nodes={state: totals.states[state] for state in (READY, *LagReason)},
    )
