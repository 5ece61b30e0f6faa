"""On how many nodes at a time a policy disturbs anybody (rollout.maxUnavailable)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gpusharing.api.sharing.rollout import Rollout
from gpusharing.core.policies.policy import Candidate
from gpusharing.core.rollout.gpu_change import NodeRollout


class Part(NamedTuple):
    """What a node says of one policy."""

    selected: bool
    asking: bool
    """Whether it would begin there."""
    changing: bool
    failing: bool


NO_PART: Final = Part(selected=False, asking=False, changing=False, failing=False)


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


@dataclass(slots=True)
class Budget:
    """What all nodes together say of one policy, kept so that the part of one can be exchanged."""

    selected: set[str] = field(default_factory=set)
    asking: set[str] = field(default_factory=set)
    changing: set[str] = field(default_factory=set)
    failing: set[str] = field(default_factory=set)

    def put(self, node: str, part: Part) -> None:
        for nodes, belongs in zip((self.selected, self.asking, self.changing, self.failing), part, strict=True):
            if belongs:
                nodes.add(node)
            else:
                nodes.discard(node)

    def held_back(self, rollout: Rollout) -> frozenset[str]:
        """Nodes that may not begin yet, the last by name. One on which something goes on, or fails, may have what is
        wanted now: that costs nothing more, and it may be what mends it. And while it fails it takes up its place, so
        that a change that works nowhere comes to no more nodes than are allowed."""
        under_way = self.changing | self.failing
        room = max(0, _most(rollout, len(self.selected)) - len(under_way))
        return frozenset(sorted(self.asking - under_way)[room:])


def held_back(
    candidates: Collection[Candidate], rollouts: Mapping[str, NodeRollout], selected: Mapping[str, Collection[str]]
) -> Mapping[str, frozenset[str]]:
    """By node, the policies that may not begin there. `selected`: by node, the policies that select it."""
    budgets = {candidate.name: Budget() for candidate in candidates}
    for node, rollout in rollouts.items():
        for policy, part in parts(rollout, selected[node]).items():
            if policy in budgets:
                budgets[policy].put(node, part)
    held = {
        candidate.name: budgets[candidate.name].held_back(candidate.policy.spec.rollout) for candidate in candidates
    }
    return {node: frozenset(policy for policy, nodes in held.items() if node in nodes) for node in rollouts}


def _most(rollout: Rollout, selected: int) -> int:
    match rollout.max_unavailable:
        case int(number):
            return number
        case percentage:
            return max(1, selected * int(percentage.removesuffix("%")) // 100)
