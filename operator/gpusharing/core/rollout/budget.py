"""On how many nodes at a time a policy disturbs anybody (rollout.maxUnavailable)."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from gpusharing.api.sharing.rollout import Rollout
from gpusharing.core.rollout.gpu_change import NodeRollout


class Part(NamedTuple):
    """One node in the rollout of one policy."""

    selected: bool
    asking: bool
    """Whether it would begin there."""
    changing: bool
    failing: bool


def parts(rollout: NodeRollout, selected_by: Collection[str]) -> Mapping[str, Part]:
    """By policy. `selected_by`: those that select the node."""
    return {
        policy: Part(
            selected=policy in selected_by,
            asking=policy in rollout.asking,
            changing=policy in rollout.changing,
            failing=policy in rollout.failing,
        )
        for policy in {*selected_by, *rollout.asking, *rollout.changing, *rollout.failing}
    }


def held_back(rollout: Rollout, nodes: Mapping[str, Part]) -> frozenset[str]:
    """Nodes that may not begin yet, the last by name.

    One that is changing or failing may get what is wanted now: that costs nothing more, and it may be what mends it.
    While it fails it uses up its place, so that a change that works nowhere reaches no more nodes than are allowed.
    """
    under_way = {node for node, part in nodes.items() if part.changing or part.failing}
    asking = {node for node, part in nodes.items() if part.asking}
    room = max(0, _most(rollout, sum(part.selected for part in nodes.values())) - len(under_way))
    return frozenset(sorted(asking - under_way)[room:])


def _most(rollout: Rollout, selected: int) -> int:
    match rollout.max_unavailable:
        case int(number):
            return number
        case percentage:
            return max(1, selected * int(percentage.removesuffix("%")) // 100)
