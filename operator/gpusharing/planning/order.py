"""In which order nodes change, and how long that takes, as far as it is known beforehand."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from gpusharing.api.meta import Key
from gpusharing.api.sharing.plan import Effect
from gpusharing.api.sharing.rollout import Rollout
from gpusharing.core.rollout.budget import Part, held_back
from gpusharing.core.rollout.gpu_change import GpuChange
from gpusharing.planning.changes import Step
from gpusharing.snapshots.world import World

WITH_GUARD: Final = 20.0
"""Seconds until devices are withdrawn that the closing guard refuses: less as a rule (docs/performance.md)."""
GRACE: Final = 30.0
"""Seconds that Kubernetes gives a pod to end, if the pod says nothing else."""

UNLIMITED: Final = Rollout()
"""Of a policy that is deleted: nothing of it has to begin."""

_WAITING: Final = frozenset({Effect.WAITS, Effect.UNCHANGED_UNTIL_IDLE})
_WHY: Final = {
    Effect.EVICTS: "pods are evicted",
    Effect.REPARTITIONS: "GPUs are repartitioned or reset",
    Effect.CLOSES_FIRST: "devices are withdrawn first",
    Effect.WAITS: "GPUs in use wait until their claims are released",
    Effect.UNCHANGED_UNTIL_IDLE: "GPUs in use stay unchanged until they are idle",
}

Changes = Mapping[str, Sequence[GpuChange]]
"""By node, the GPUs that change for a policy."""


def steps(
    policy: str, rollout: Rollout, changes: Changes, parts: Mapping[str, Part], *, takes: "Takes"
) -> Iterator[Step]:
    """First the nodes that rollout.maxUnavailable does not limit, then the others, a few at a time."""
    limited = {node for node, part in parts.items() if part.asking}
    if at_once := sorted(changes.keys() - limited):
        yield _step(policy, at_once, changes, takes)
    left = dict(parts)
    while limited:
        beginning = limited - held_back(rollout, left)
        if not beginning:
            return
        yield _step(policy, sorted(beginning), changes, takes)
        limited -= beginning
        for node in beginning:
            # When it is through, others have its place.
            left[node] = left[node]._replace(asking=False, changing=False)


def never_begun(steps_: Sequence[Step], parts: Mapping[str, Part]) -> list[str]:
    """Nodes for which failing ones leave no room."""
    begun = {node for step in steps_ for node in step.nodes}
    return sorted(node for node, part in parts.items() if part.asking and node not in begun)


class Takes:
    """How long things take."""

    def __init__(self, world: World, holders: Collection[Key], *, closing: float) -> None:
        """`holders`: claims of which pods may be evicted. `closing`: seconds until a device that is not offered any
        more is withdrawn."""
        self._closing = closing
        self._grace = _grace_of(world, holders) if holders else {}

    def change(self, change: GpuChange) -> float | None:
        match change.effect:
            case effect if effect in _WAITING:
                return None
            case Effect.EVICTS:
                grace = max((self._grace.get(claim, GRACE) for claim in change.claims), default=GRACE)
                return grace + self._closing
            case Effect.NONE if not _withdraws(change):
                return 0.0
        return self._closing


def _grace_of(world: World, holders: Collection[Key]) -> Mapping[str, float]:
    """By claim, as namespace/name."""
    found: defaultdict[str, float] = defaultdict(float)
    for pod in world.pods:
        namespace = pod["metadata"].get("namespace", "")
        made = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        for one in (*(pod["spec"].get("resourceClaims") or ()), *made):
            name = one.get("resourceClaimName")
            if name and (namespace, name) in holders:
                grace = pod["spec"].get("terminationGracePeriodSeconds")
                claim = f"{namespace}/{name}"
                found[claim] = max(found[claim], GRACE if grace is None else float(grace))
    return found


def _withdraws(change: GpuChange) -> bool:
    """Whether a mode is not offered any more."""
    before, after = change.before, change.after
    if before is None or before.offers is None or after.offers is None:
        return before is not None and before.offers != after.offers
    return any(
        getattr(before.offers, mode) is not None and getattr(after.offers, mode) is None
        for mode in ("exclusive", "time_slicing", "mps", "mig")
    )


def _step(policy: str, nodes: Sequence[str], changes: Changes, takes: Takes) -> Step:
    found = [change for node in nodes for change in changes.get(node, ())]
    seconds = [takes.change(change) for change in found]
    known = [one for one in seconds if one is not None]
    effects = {change.effect for change in found} - {Effect.NONE}
    why = [text for effect, text in _WHY.items() if effect in effects]
    return Step(
        policy=policy,
        nodes=tuple(nodes),
        seconds=max(known, default=0.0) if len(known) == len(seconds) else None,
        why=", ".join(why) or "nobody is disturbed",
    )
