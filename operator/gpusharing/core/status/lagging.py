"""Why what a policy won on a node is not in force there yet."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpusharing.api import names
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.plan import Effect
from gpusharing.api.sharing.policy_status import LaggingNode, LagReason
from gpusharing.core.intents import Target
from gpusharing.core.rollout.gpu_change import GpuChange
from gpusharing.core.rollout.gpu_progress import blocking_holds, can_be_taken, failure, has_to_be_repartitioned
from gpusharing.core.state.node_view import GpuView
from gpusharing.core.text import listed
from gpusharing.core.timestamps import moment, seconds


class Late(NamedTuple):
    """A GPU on which something is missing."""

    decided: GpuSharing
    gpu: GpuView


def lagging(
    node: str,
    *,
    late: Sequence[Late],
    waiting: Sequence[GpuChange],
    held: bool,
    not_ready_since: str | None = None,
    unguarded_wait: float | None = None,
) -> LaggingNode | None:
    """`late`: those that it has. `waiting`: those that stay as they were. `held`: whether it may not begin here yet.
    `unguarded_wait`: the seconds for which a device closes that nobody holds; None: the closing guard shortens it."""
    found = _waiting(waiting, held=held)
    if found is None and late:
        found = _not_ready(not_ready_since) if not_ready_since else _late(late, unguarded_wait)
    return LaggingNode(node=node, reason=found[0], message=found[1]) if found else None


def is_late(entry: GpuSharing, gpu: GpuView) -> bool:
    return not _has_acted(entry, gpu) or has_to_be_repartitioned(entry, gpu) or not can_be_taken(entry, gpu.status)


_Found = tuple[LagReason, str] | None


def _waiting(waiting: Sequence[GpuChange], *, held: bool) -> _Found:
    """Those that stay as they were."""
    if held:
        return LagReason.HELD_BACK, "held back until other nodes have changed (rollout.maxUnavailable)"
    kept = [change.after.uuid for change in waiting if change.effect is Effect.UNCHANGED_UNTIL_IDLE]
    if kept:
        return (
            LagReason.UNCHANGED_UNTIL_IDLE,
            f"{listed(kept)}: in use, and unchanged until idle (rollout.disruption: Never)",
        )
    return None


def _not_ready(since: str) -> _Found:
    # Whatever its agent reported last is old.
    message = (
        f"the node is NotReady since {since}, and counts towards rollout.maxUnavailable: repair the node, or delete "
        "its Node object"
    )
    return LagReason.NODE_NOT_READY, message


def _late(late: Sequence[Late], unguarded_wait: float | None) -> _Found:
    """By the weightiest reason that there is on any of them."""
    failures = [f"{one.decided.uuid}: {why}" for one in late if (why := failure(one.gpu.status))]
    if failures:
        return LagReason.FAILING, listed(failures, separator="; ")
    if any(not _has_acted(one.decided, one.gpu) for one in late):
        return LagReason.WAITING_FOR_AGENT, "the agent has not applied the change yet"
    return (
        _those(late, LagReason.EVICTING, _is_evicting, "in use; the pods that block the change are being evicted")
        or _those(late, LagReason.IN_USE, _is_in_use, "in use; the change takes effect when the last claim is released")
        or _those(late, LagReason.REPARTITIONING, _is_being_repartitioned, "being repartitioned or reset")
        or _those(late, LagReason.WITHDRAWING, lambda _: True, _withdrawing(late, unguarded_wait))
    )


def _those(late: Sequence[Late], reason: LagReason, are: Callable[[Late], bool], what: str) -> _Found:
    uuids = [one.decided.uuid for one in late if are(one)]
    return (reason, f"{listed(uuids)}: {what}") if uuids else None


def _has_acted(entry: GpuSharing, gpu: GpuView) -> bool:
    # What goes to another pool is its former policy's until nothing of it is left there.
    published = gpu.status.published
    leaves = bool(published) and all(device.closing_since is not None for device in published)
    return leaves or gpu.status.policy == entry.policy


def _is_being_repartitioned(one: Late) -> bool:
    return has_to_be_repartitioned(*one) and not _closing_since(one)


def _withdrawing(late: Sequence[Late], unguarded_wait: float | None) -> str:
    what = "devices that are no longer offered are being withdrawn"
    moments = sorted(seconds(since) for one in late for since in _closing_since(one))
    if not moments:
        return what
    if unguarded_wait is None:
        return f"{what} since {moment(moments[0])}, which takes less than 20 s as a rule"
    return (
        f"{what} since {moment(moments[0])}, until {moment(moments[-1] + unguarded_wait)}: that takes so long because "
        f"{Target.ADMISSION_POLICY} {names.CLOSING_GUARD} or its binding is missing or changed; see "
        "docs/tenants.md#when-gpus-change-hands"
    )


def _closing_since(one: Late) -> list[str]:
    return [device.closing_since for device in one.gpu.status.published if device.closing_since is not None]


def _is_evicting(one: Late) -> bool:
    return one.decided.drain is not None and bool(blocking_holds(*one))


def _is_in_use(one: Late) -> bool:
    return bool(one.gpu.holds) or one.gpu.is_prepared
