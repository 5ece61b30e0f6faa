"""How changes come into force: whom each of them disturbs, and on how many nodes at a time.

Nothing is remembered. That a node is being changed shows in its spec and in what its agent reports, so that an
operator that has just started goes on where the last one was.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gpusharing.api.sharing import Disruption, Effect, GpuSharing
from gpusharing.core.acceptance import Candidate
from gpusharing.core.disturbance import (
    EVICT,
    GpuView,
    failure,
    gpu_views,
    has_to_be_cut,
    in_the_way,
    is_offered_anew,
    pool_of,
)
from gpusharing.core.world import NodeView

_COSTS = frozenset({Effect.EVICTS, Effect.CUT_ANEW})
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


def node_rollout(
    candidates: Mapping[str, Candidate], view: NodeView, wanted: Sequence[GpuSharing], driver: str
) -> NodeRollout:
    """`wanted`: how each GPU is to be in the end."""
    gpus = gpu_views(view, driver)
    decided = {gpu.uuid: gpu for gpu in view.sharing.spec.gpus}
    changes = tuple(_change(candidates, decided.get(gpu.uuid), gpu, gpus[gpu.uuid]) for gpu in wanted)
    asking = {change.policy for change in changes if change.effect in _COSTS and not change.has_begun}
    now = [
        (change, standing, gpus[change.after.uuid]) for change in changes if (standing := _standing(change)) is not None
    ]
    return NodeRollout(
        changes=changes,
        asking=frozenset(policy for policy in asking if policy),
        changing=frozenset(
            standing.policy.name for _, standing, gpu in now if standing.policy and is_changing(standing, gpu)
        ),
        failing=frozenset(
            standing.policy.name
            for change, standing, gpu in now
            if standing.policy and takes_up_a_place(standing, change.after, gpu)
        ),
    )


def _change(
    candidates: Mapping[str, Candidate], before: GpuSharing | None, after: GpuSharing, gpu: GpuView
) -> GpuChange:
    policy = after.policy or (before.policy if before else None)
    candidate = candidates.get(policy.name) if policy else None
    claims = in_the_way(after, gpu)
    disruption = _disruption(candidate, before, after)
    effect = _effect(before, after, gpu, disturbed=bool(claims), disruption=disruption)
    drains = effect is Effect.EVICTS or (
        disruption is Disruption.EVICT and before is not None and _is_draining_to(before, after, gpu)
    )
    return GpuChange(
        before=before,
        after=after.model_copy(update={"drain": EVICT if drains else None}),
        effect=effect,
        claims=claims,
        policy=candidate.name if candidate else None,
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
                return Effect.KEPT_UNTIL_IDLE
            case Disruption.EVICT:
                return Effect.EVICTS
            case Disruption.WAIT_FOR_IDLE:
                return Effect.WAITS
    if has_to_be_cut(after, gpu):
        return Effect.CUT_ANEW
    closes = before is not None and pool_of(before, gpu.node) != pool_of(after, gpu.node)
    return Effect.CLOSES_FIRST if closes else Effect.NONE


def _is_draining_to(before: GpuSharing, after: GpuSharing, gpu: GpuView) -> bool:
    """An eviction ends when the GPU can be had anew, not when the last pod has gone."""
    return before.drain is not None and _ways(before) == _ways(after) and not is_offered_anew(before, gpu.status)


def _standing(change: GpuChange) -> GpuSharing | None:
    """What was decided, without an eviction that is over."""
    before, after = change.before, change.after
    if before is not None and _ways(before) == _ways(after) and after.drain is None:
        return before.model_copy(update={"drain": None})
    return before


def is_changing(entry: GpuSharing, gpu: GpuView) -> bool:
    """Whether work is being evicted, or the GPU is being cut anew."""
    return entry.drain is not None or (has_to_be_cut(entry, gpu) and not in_the_way(entry, gpu))


def takes_up_a_place(entry: GpuSharing, wanted: GpuSharing, gpu: GpuView) -> bool:
    """Whether the GPU fails, and others of the kind must not follow it. What was broken before the change came to it is
    not the change's doing."""
    return failure(gpu.status) is not None and (_is_same(entry, wanted) or is_changing(entry, gpu))


def _is_same(entry: GpuSharing, other: GpuSharing) -> bool:
    """To whoever holds the GPU, or would like to."""
    return _ways(entry) == _ways(other) and entry.drain == other.drain


def _ways(entry: GpuSharing) -> tuple[object, ...]:
    """In which it can be had, and by whom."""
    return entry.offers, entry.policy.name if entry.restricted and entry.policy else None


def _now(change: GpuChange, held_back: Collection[str]) -> GpuSharing:
    if change.before is None:
        drain = None if change.policy in held_back else change.after.drain
        return change.after.model_copy(update={"drain": drain})
    if change.effect is Effect.KEPT_UNTIL_IDLE:
        return _as_before(change.before, change.after).model_copy(update={"drain": None})
    if change.policy in held_back:
        return _as_before(change.before, change.after)
    return change.after


def _as_before(before: GpuSharing, after: GpuSharing) -> GpuSharing:
    name = before.policy.name if before.policy else None
    # Who is about to lose the GPU has not lost it yet.
    return before.model_copy(update={"losers": tuple(loser for loser in after.losers if loser.policy != name)})
