"""How changes come into force on a node: whom each of them disturbs, and what is written now.

Nothing is remembered. That a node is being changed shows in its spec and in what its agent reports, so that an
operator that has just started goes on where the last one was.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from gpusharing.api.sharing.node_spec import Drain, GpuSharing
from gpusharing.api.sharing.plan import Effect
from gpusharing.api.sharing.rollout import Disruption
from gpusharing.core.claims.allocation import display_name
from gpusharing.core.memo import Memo
from gpusharing.core.policies.policy import Candidate
from gpusharing.core.rollout.gpu_progress import blocking_holds, failure, has_to_be_cut, is_offered_anew
from gpusharing.core.state.node_view import GpuView

EVICT: Final = Drain(mode="Evict")
_COSTS = frozenset({Effect.EVICTS, Effect.REPARTITIONS})
"""Of what there are only a few at a time. Nobody waits for those who wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuChange:
    """What is to become of one GPU."""

    before: GpuSharing | None
    """As it was decided last. None: nothing was, and nobody can have got it."""
    after: GpuSharing
    effect: Effect
    claims: tuple[str, ...] = ()
    """Those in the way, by namespace and name."""
    policy: str | None
    """Whose rollout it is: that of the policy that wins the GPU, or gives it away to nobody."""
    changing: str | None = None
    """The policy for which somebody is being evicted, or the GPU is being cut anew."""
    failing: str | None = None
    """The policy for which the GPU does not become what it should be."""
    gpu: GpuView
    """As its agent reports it."""

    @property
    def has_begun(self) -> bool:
        """Whether all that could disturb somebody is written already, or there is nothing of the kind."""
        if self.before is None:
            return self.after.drain is None
        return _is_same(self.before, self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRollout:
    """What is to become of one node."""

    changes: tuple[GpuChange, ...]
    """One for each GPU, in the order in which they are wanted."""
    asking: frozenset[str] = frozenset()
    """Policies that would begin here with something of which there are only a few at a time."""
    changing: frozenset[str] = frozenset()
    """Policies for which that goes on here."""
    failing: frozenset[str] = frozenset()
    """Policies of which GPUs here do not become what they should be."""

    def admitted(self, held_back: Collection[str]) -> tuple[GpuSharing, ...]:
        """How each GPU is to be now, where these policies may not begin."""
        return tuple(_now(change, held_back) for change in self.changes)


class _Case(NamedTuple):
    """All that a change is made of."""

    candidate: Candidate | None
    """Whose rollout it is."""
    before: GpuSharing | None
    wanted: GpuSharing
    gpu: GpuView


ChangeMemo: TypeAlias = Memo[_Case, GpuChange]


def node_rollout(
    candidates: Mapping[str, Candidate],
    gpus: Mapping[str, GpuView],
    before: Mapping[str, GpuSharing],
    wanted: Sequence[GpuSharing],
    memo: ChangeMemo | None = None,
) -> NodeRollout:
    """`gpus` and `before` are by uuid; `wanted` is how each GPU should be in the end."""
    cases = {
        gpu.uuid: _Case(_whose(before.get(gpu.uuid), gpu, candidates), before.get(gpu.uuid), gpu, gpus[gpu.uuid])
        for gpu in wanted
    }
    changes = tuple((memo or Memo()).map(_change, cases))
    asking = {change.policy for change in changes if change.effect in _COSTS and not change.has_begun}
    return NodeRollout(
        changes=changes,
        asking=frozenset(policy for policy in asking if policy),
        changing=frozenset(change.changing for change in changes if change.changing),
        failing=frozenset(change.failing for change in changes if change.failing),
    )


def _whose(before: GpuSharing | None, after: GpuSharing, candidates: Mapping[str, Candidate]) -> Candidate | None:
    policy = after.policy or (before.policy if before else None)
    return candidates.get(policy.name) if policy else None


def _change(case: _Case) -> GpuChange:
    candidate, before, wanted, gpu = case
    claims = tuple(sorted({display_name(hold.claim) for hold in blocking_holds(wanted, gpu)}))
    disruption = _disruption(candidate, before, wanted)
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
        policy=candidate.name if candidate else None,
        changing=owner if standing and is_changing(standing, gpu) else None,
        gpu=gpu,
        failing=owner if standing and takes_up_a_place(standing, after, gpu) else None,
    )


def _disruption(candidate: Candidate | None, before: GpuSharing | None, after: GpuSharing) -> Disruption:
    if candidate is None:
        return Disruption.WAIT_FOR_IDLE
    if candidate.rests:
        # What has begun goes on, and nothing else begins.
        return Disruption.EVICT if before and before.drain else Disruption.WAIT_FOR_IDLE
    wished = candidate.policy.spec.rollout.disruption
    has_something_to_keep = before is not None and _ways(before) != _ways(after)
    return Disruption.WAIT_FOR_IDLE if wished is Disruption.NEVER and not has_something_to_keep else wished


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
    if has_to_be_cut(after, gpu):
        return Effect.REPARTITIONS
    closes = before is not None and before.restricted_to != after.restricted_to
    return Effect.CLOSES_FIRST if closes else Effect.NONE


def _is_draining_to(before: GpuSharing, after: GpuSharing, gpu: GpuView) -> bool:
    """An eviction ends when the GPU can be had anew, not when the last pod has gone."""
    return before.drain is not None and _ways(before) == _ways(after) and not is_offered_anew(before, gpu.status)


def _standing(before: GpuSharing | None, after: GpuSharing) -> GpuSharing | None:
    """What was decided, without an eviction that is over."""
    if before is not None and _ways(before) == _ways(after) and after.drain is None:
        return _undrained(before)
    return before


def _undrained(entry: GpuSharing) -> GpuSharing:
    return entry.model_copy(update={"drain": None}) if entry.drain else entry


def is_changing(entry: GpuSharing, gpu: GpuView) -> bool:
    """Whether work is being evicted, or the GPU is being cut anew."""
    return entry.drain is not None or (has_to_be_cut(entry, gpu) and not blocking_holds(entry, gpu))


def takes_up_a_place(entry: GpuSharing, wanted: GpuSharing, gpu: GpuView) -> bool:
    """Whether the GPU fails, and others of the kind must not follow it. What was broken before the change came to it is
    not the change's doing."""
    return failure(gpu.status) is not None and (_is_same(entry, wanted) or is_changing(entry, gpu))


def _is_same(entry: GpuSharing, other: GpuSharing) -> bool:
    """To whoever holds the GPU, or would like to."""
    return _ways(entry) == _ways(other) and entry.drain == other.drain


def _ways(entry: GpuSharing) -> tuple[object, ...]:
    """In which it can be had, and by whom."""
    return entry.offers, entry.restricted_to


def _now(change: GpuChange, held_back: Collection[str]) -> GpuSharing:
    if change.before is None:
        return _undrained(change.after) if change.policy in held_back else change.after
    if change.effect is Effect.UNCHANGED_UNTIL_IDLE:
        return _undrained(_as_before(change.before, change.after))
    if change.policy in held_back:
        return _as_before(change.before, change.after)
    return change.after


def _as_before(before: GpuSharing, after: GpuSharing) -> GpuSharing:
    name = before.policy.name if before.policy else None
    # Who is about to lose the GPU has not lost it yet.
    return before.model_copy(update={"losers": tuple(loser for loser in after.losers if loser.policy != name)})
