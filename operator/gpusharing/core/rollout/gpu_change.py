"""How changes come into force on a node: which claims each change disturbs, and which entries are written now.

Nothing is remembered: the spec of a node and the report of its agent show whether the node is being changed. So an
operator that has just started continues where the last one stopped.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from gpusharing.api.sharing.node_spec import Drain, GpuSharing
from gpusharing.api.sharing.plan import Effect
from gpusharing.api.sharing.rollout import Disruption
from gpusharing.core.claims.allocation import display_name
from gpusharing.core.memo import Memo
from gpusharing.core.policies.policy import ExaminedPolicy
from gpusharing.core.rollout.gpu_progress import (
    blocking_holds,
    failure,
    has_to_be_repartitioned,
    is_offered_again,
    waits_for_withdrawal,
)
from gpusharing.core.state.node_view import GpuView

EVICT: Final = Drain(mode="Evict")
_COSTS = frozenset({Effect.EVICTS, Effect.REPARTITIONS})
"""Effects that rollout.maxUnavailable limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuChange:
    """The change of one GPU."""

    before: GpuSharing | None
    """The entry that was decided last. None: there was none, so no claim can have the GPU."""
    after: GpuSharing
    effect: Effect
    claims: tuple[str, ...] = ()
    """Claims that block the change, by namespace and name."""
    policy: str | None
    """The policy whose rollout it is: it wins the GPU, or had it, if no policy wins it."""
    changing: str | None = None
    """The policy for which pods are being evicted, or the GPU is being repartitioned."""
    closes_first: bool = False
    """Whether devices have to be withdrawn before the GPU can be reset: that disturbs nobody yet."""
    failing: str | None = None
    """The policy for which the GPU fails."""
    gpu: GpuView
    """As its agent reports it."""

    @property
    def is_applied(self) -> bool:
        """Whether everything that disturbs claims is already written."""
        if self.before is None:
            return self.after.drain is None
        return _is_same(self.before, self.after)

    @property
    def asks(self) -> bool:
        """Whether it is about to disturb somebody, or to take the GPU away."""
        return self.closes_first or (self.effect in _COSTS and not self.is_applied)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRollout:
    """The changes of one node."""

    changes: tuple[GpuChange, ...]
    """One for each GPU, in the order of the wanted entries."""
    asking: frozenset[str] = frozenset()
    """Policies that would start a change here that rollout.maxUnavailable limits."""
    changing: frozenset[str] = frozenset()
    """Policies with such a change in progress here."""
    failing: frozenset[str] = frozenset()
    """Policies with failing GPUs here."""

    def admitted(self, held_back: Collection[str]) -> tuple[GpuSharing, ...]:
        """The entries to write now, while these policies may not start a change."""
        return tuple(_admitted(change, held_back) for change in self.changes)

    def withheld(self, held_back: Collection[str]) -> frozenset[str]:
        """By uuid, GPUs that may not be reset while these policies may not start a change: nothing of them may be
        withdrawn."""
        return frozenset(
            change.after.uuid for change in self.changes if change.closes_first and change.policy in held_back
        )


class _Case(NamedTuple):
    """The inputs of a change."""

    examined: ExaminedPolicy | None
    """Whose rollout it is."""
    before: GpuSharing | None
    wanted: GpuSharing
    gpu: GpuView


ChangeMemo: TypeAlias = Memo[_Case, GpuChange]


def node_rollout(
    policies: Mapping[str, ExaminedPolicy],
    gpus: Mapping[str, GpuView],
    before: Mapping[str, GpuSharing],
    wanted: Sequence[GpuSharing],
    memo: ChangeMemo | None = None,
) -> NodeRollout:
    """`gpus` and `before` are by uuid; `wanted` has the final entry of each GPU."""
    cases = {
        gpu.uuid: _Case(_policy_of(before.get(gpu.uuid), gpu, policies), before.get(gpu.uuid), gpu, gpus[gpu.uuid])
        for gpu in wanted
    }
    changes = tuple((memo or Memo()).map(_change, cases))
    asking = {change.policy for change in changes if change.asks}
    return NodeRollout(
        changes=changes,
        asking=frozenset(policy for policy in asking if policy),
        changing=frozenset(change.changing for change in changes if change.changing),
        failing=frozenset(change.failing for change in changes if change.failing),
    )


def _policy_of(
    before: GpuSharing | None, after: GpuSharing, policies: Mapping[str, ExaminedPolicy]
) -> ExaminedPolicy | None:
    policy = after.policy or (before.policy if before else None)
    return policies.get(policy.name) if policy else None


def _change(case: _Case) -> GpuChange:
    examined, before, wanted, gpu = case
    claims = tuple(sorted({display_name(hold.claim) for hold in blocking_holds(wanted, gpu)}))
    disruption = _disruption(examined, before, wanted)
    effect = _effect(before, wanted, gpu, disturbed=bool(claims), disruption=disruption)
    drains = effect is Effect.EVICTS or (
        disruption is Disruption.EVICT and before is not None and _is_draining_to(before, wanted, gpu)
    )
    after = wanted.model_copy(update={"drain": EVICT}) if drains else _undrained(wanted)
    standing = _standing(before, after)
    owner = standing.policy.name if standing and standing.policy else None
    return GpuChange(
        before=before,
        after=after,
        effect=effect,
        claims=claims,
        policy=examined.name if examined else None,
        changing=owner if standing and is_changing(standing, gpu) else None,
        gpu=gpu,
        closes_first=not claims and waits_for_withdrawal(after, gpu),
        failing=owner if standing and counts_as_unavailable(standing, after, gpu) else None,
    )


def _disruption(examined: ExaminedPolicy | None, before: GpuSharing | None, after: GpuSharing) -> Disruption:
    if examined is None:
        return Disruption.WAIT_FOR_IDLE
    if examined.is_suspended:
        # An eviction that has begun continues; no other begins.
        return Disruption.EVICT if before and before.drain else Disruption.WAIT_FOR_IDLE
    requested = examined.policy.spec.rollout.disruption
    has_something_to_keep = before is not None and _offers_and_tenants(before) != _offers_and_tenants(after)
    return Disruption.WAIT_FOR_IDLE if requested is Disruption.NEVER and not has_something_to_keep else requested


def _effect(
    before: GpuSharing | None, after: GpuSharing, gpu: GpuView, *, disturbed: bool, disruption: Disruption
) -> Effect:
    if disturbed:
        match disruption:
            case Disruption.NEVER:
                return Effect.UNCHANGED_UNTIL_IDLE
            case Disruption.EVICT:
                return Effect.EVICTS
            case Disruption.WAIT_FOR_IDLE:
                return Effect.WAITS
    if has_to_be_repartitioned(after, gpu):
        return Effect.REPARTITIONS
    closes = before is not None and before.restricted_to != after.restricted_to
    return Effect.CLOSES_FIRST if closes else Effect.NONE


def _is_draining_to(before: GpuSharing, after: GpuSharing, gpu: GpuView) -> bool:
    """An eviction ends when the GPU is offered again, not when its last pod has ended."""
    return (
        before.drain is not None
        and _offers_and_tenants(before) == _offers_and_tenants(after)
        and not is_offered_again(before, gpu.status)
    )


def _standing(before: GpuSharing | None, after: GpuSharing) -> GpuSharing | None:
    """The last decided entry, without an eviction that has ended."""
    if before is not None and _offers_and_tenants(before) == _offers_and_tenants(after) and after.drain is None:
        return _undrained(before)
    return before


def _undrained(entry: GpuSharing) -> GpuSharing:
    return entry.model_copy(update={"drain": None}) if entry.drain else entry


def is_changing(entry: GpuSharing, gpu: GpuView) -> bool:
    """Whether pods are being evicted, or the GPU is being repartitioned."""
    if entry.drain is not None:
        return True
    is_next = has_to_be_repartitioned(entry, gpu) and not blocking_holds(entry, gpu)
    return is_next and not waits_for_withdrawal(entry, gpu)


def counts_as_unavailable(entry: GpuSharing, wanted: GpuSharing, gpu: GpuView) -> bool:
    """Whether the GPU fails because of the change, not before it. It then counts against rollout.maxUnavailable."""
    return failure(gpu.status) is not None and (_is_same(entry, wanted) or is_changing(entry, gpu))


def _is_same(entry: GpuSharing, other: GpuSharing) -> bool:
    """Whether both entries are the same to claims."""
    return _offers_and_tenants(entry) == _offers_and_tenants(other) and entry.drain == other.drain


def _offers_and_tenants(entry: GpuSharing) -> tuple[object, ...]:
    """The facts of an entry that matter to claims."""
    return entry.offers, entry.restricted_to


def _admitted(change: GpuChange, held_back: Collection[str]) -> GpuSharing:
    if change.before is None:
        return _undrained(change.after) if change.policy in held_back else change.after
    if change.effect is Effect.UNCHANGED_UNTIL_IDLE:
        return _undrained(_unchanged(change.before, change.after))
    if change.policy in held_back and not change.closes_first:
        return _unchanged(change.before, change.after)
    return change.after


def _unchanged(before: GpuSharing, after: GpuSharing) -> GpuSharing:
    name = before.policy.name if before.policy else None
    # The policy has not lost the GPU yet.
    return before.model_copy(update={"losers": tuple(loser for loser in after.losers if loser.policy != name)})
