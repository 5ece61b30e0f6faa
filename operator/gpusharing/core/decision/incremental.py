"""The decision kept up to date: what `decide` would say of the whole cluster, made anew only where something changed.

A claim costs the decision on its node and the exchange of its share in its policies, however large the cluster.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.policy_status import SharingPolicyStatus
from gpusharing.core.cluster.cluster_decision import Cluster, ClusterDecision, cluster_decision
from gpusharing.core.decision.node_decision import (
    Memory,
    NodeDecision,
    Wanted,
    changes,
    decided_once,
    decision,
    says_the_same_of_gpus,
    wanted,
)
from gpusharing.core.events.waiting_claims import waiting_notices
from gpusharing.core.intents import Intent, PatchStatus, ReplaceSpec, Tell
from gpusharing.core.policies.policy import Candidate, Candidates, examine
from gpusharing.core.rollout.budget import NO_PART, Budget, Part, parts
from gpusharing.core.rollout.gpu_change import NodeRollout
from gpusharing.core.state.cluster_state import Present
from gpusharing.core.state.node_view import NodeView, Setup, policies_of
from gpusharing.core.state.touched import Touched, touched
from gpusharing.core.status.contribution import NodeShare
from gpusharing.core.status.policy_status import policy_status
from gpusharing.core.status.totals import Tally
from gpusharing.core.timestamps import seconds


@dataclass(slots=True, kw_only=True)
class _Node:
    """A node as it was looked at last."""

    memory: Memory
    candidates: Candidates
    view: NodeView
    wish: Wanted
    rollout: NodeRollout
    touched: Touched | None = None
    """What claims have changed since the last decision; None: anything may have."""
    decision: NodeDecision | None = None
    """None until the first one."""
    held_back: frozenset[str] = frozenset()
    """When it was made: policies that could not begin."""

    @property
    def shares(self) -> Mapping[str, NodeShare]:
        return self.decision.shares if self.decision else {}


class Decider:
    def __init__(self, setup: Setup) -> None:
        self.present = Present(setup)
        self._setup = setup
        self._forget()

    def decide(self, *, now: str) -> list[Intent]:
        """All writes that are missing, whenever they were decided."""
        try:
            self._take_in(now)
        except Exception:
            # Half of it may have been taken in.
            self._forget()
            raise
        return [
            *(self._missing[name] for name in sorted(self._missing)),
            *(intent for name in sorted(self._evictions) for intent in self._evictions[name]),
            *self._cluster.intents,
            *(self._unsaid[name] for name in sorted(self._unsaid)),
            *self._untold,
        ]

    def next_in(self, *, now: str) -> float | None:
        """In how many seconds time alone may change the decision."""
        return max(0.0, self._moments[0][0] - seconds(now)) if self._moments else None

    def _forget(self) -> None:
        self._knows_nothing = True
        self._candidates = Candidates()
        self._nodes: dict[str, _Node] = {}
        self._tallies: dict[str, Tally] = {}
        self._budgets: dict[str, Budget] = {}
        self._held_back: dict[str, frozenset[str]] = {}
        """By policy, the nodes on which it may not begin yet."""
        self._missing: dict[str, ReplaceSpec] = {}
        self._evictions: dict[str, Sequence[Intent]] = {}
        self._cluster = ClusterDecision()
        self._unsaid: dict[str, PatchStatus] = {}
        self._untold: list[Tell] = []
        self._moments: list[tuple[float, str]] = []

    def _take_in(self, now: str) -> None:
        changes = self.present.take_changes()
        if self._knows_nothing:
            changes = self.present.everything()
            self._knows_nothing = False
        edited = self._examine(changes.policies)
        due = sorted(changes.nodes | self._due(now) | self._concerned(edited))
        due = [name for name in due if not self._has_come_true(name, now)]
        # Those that were not written yet get the time of their writing.
        policies = changes.policies | self._unsaid.keys()
        rolling = {candidate.name for candidate in edited}
        for name in due:
            rolling |= self._wish(name)
        # A node that is through makes room for others.
        for name in sorted({*due, *self._begin_or_wait(rolling)}):
            policies |= self._settle(name, now)
        if edited or changes.cluster:
            before, self._cluster = self._cluster, self._decide_cluster()
            policies |= before.differs_for(self._cluster)
        for name in policies:
            self._say(name, now)
        if policies or changes.cluster or changes.waiting:
            present = self.present
            self._untold = waiting_notices(
                present.waiting,
                classes=present.classes,
                candidates=self._candidates.by_name,
                statuses=self._statuses(),
                namespaces=present.namespaces,
                told=present.told,
            )

    def _examine(self, names: Iterable[str]) -> list[Candidate]:
        """Takes in policies; those because of which nodes have to be decided on again, as they were and as they are."""
        edited: list[Candidate] = []
        by_name = dict(self._candidates.by_name)
        for name in names:
            before, policy = by_name.get(name), self.present.policies.get(name)
            if before and policy and _says_the_same(before.policy, policy):
                continue
            edited += [before] if before else []
            if policy is None:
                by_name.pop(name, None)
                self._tallies.pop(name, None)
                self._budgets.pop(name, None)
            else:
                by_name[name] = examine(policy, minor=self._setup.minor)
                self._tallies.setdefault(name, Tally())
                self._budgets.setdefault(name, Budget())
                edited.append(by_name[name])
        if edited:
            self._candidates = Candidates(by_name.values())
        return edited

    def _due(self, now: str) -> set[str]:
        due: set[str] = set()
        while self._moments and self._moments[0][0] <= seconds(now):
            due.add(heapq.heappop(self._moments)[1])
        return due & self._nodes.keys()

    def _concerned(self, edited: Sequence[Candidate]) -> set[str]:
        if not edited:
            return set()
        return {
            name for name, node in self._nodes.items() if any(self._concerns(candidate, node) for candidate in edited)
        }

    def _concerns(self, candidate: Candidate, node: _Node) -> bool:
        return (
            candidate.name in node.shares
            or candidate.policy.spec.nodes.matches(node.view.labels)
            or any(gpu.policy and gpu.policy.name == candidate.name for gpu in node.view.sharing.spec.gpus)
            or any(candidate.name in policies_of(claim, self._setup.driver) for claim in node.view.claims)
        )

    def _has_come_true(self, name: str, now: str) -> bool:
        """Whether nothing is new of the node but that it was told what was decided, and nothing follows from that."""
        node, view = self._nodes.get(name), self.present.view(name)
        if node is None or view is None or node.decision is None or node.candidates is not self._candidates:
            return False
        decided, told = node.decision, view.sharing.spec
        if (
            view.sharing is node.view.sharing
            or not view.differs_only_in_spec(node.view)
            or told != decided.spec
            or not decided_once(node.view.sharing.spec, told)
            or _is_past(decided.until, now)
        ):
            return False
        node.view = view
        self._missing.pop(name, None)
        return True

    def _wish(self, name: str) -> set[str]:
        """What the node should be. The policies of whose rollouts it says something else than before."""
        before = _parts(self._nodes.get(name))
        view = self.present.view(name)
        if view is not None:
            self._look_at(view)
        after = _parts(self._nodes.get(name)) if view is not None else {}
        turned = {policy for policy in before.keys() | after.keys() if before.get(policy) != after.get(policy)}
        for policy in turned & self._budgets.keys():
            self._budgets[policy].put(name, after.get(policy, NO_PART))
        return turned

    def _look_at(self, view: NodeView) -> None:
        """What it was made of may be the same as last time."""
        node = self._nodes.get(view.name)
        if (
            node is not None
            and node.candidates is self._candidates
            and node.view.labels == view.labels
            and says_the_same_of_gpus(node.view.sharing, view.sharing)
        ):
            node.touched = touched(node.view, view, self._setup.driver)
            node.view = view
            node.rollout = changes(self._candidates, view, node.wish, self._setup, node.memory, touched=node.touched)
            return
        memory = node.memory if node else Memory(self._setup.driver)
        wish = wanted(self._candidates, view, memory)
        self._nodes[view.name] = _Node(
            memory=memory,
            candidates=self._candidates,
            view=view,
            wish=wish,
            rollout=changes(self._candidates, view, wish, self._setup, memory),
            decision=node.decision if node else None,
            held_back=node.held_back if node else frozenset(),
        )

    def _begin_or_wait(self, policies: Iterable[str]) -> set[str]:
        """Nodes that may begin now, or may not any more."""
        turned: set[str] = set()
        for name in policies:
            before = self._held_back.pop(name, frozenset())
            if name in self._budgets:
                self._held_back[name] = self._budgets[name].held_back(
                    self._candidates.by_name[name].policy.spec.rollout
                )
            turned |= before ^ self._held_back.get(name, frozenset())
        return turned & self._nodes.keys()

    def _settle(self, name: str, now: str) -> set[str]:
        """Decides what is written about the node; the policies to which it is something else than before."""
        if not self.present.has(name):
            self._missing.pop(name, None)
            self._evictions.pop(name, None)
            gone = self._nodes.pop(name, None)
            return self._exchange(name, gone.shares if gone else {}, {})
        node = self._nodes[name]
        shares, until = node.shares, node.decision.until if node.decision else None
        view = node.view
        held_back = frozenset(policy for policy in node.rollout.asking if name in self._held_back.get(policy, ()))
        spared = node.touched if held_back == node.held_back and not _is_past(until, now) else None
        # Whoever decides on it next without looking at it anew does so for another reason.
        node.touched, node.held_back = None, held_back
        node.decision = decision(
            self._candidates,
            view,
            node.wish,
            self._setup,
            node.memory,
            rollout=node.rollout,
            held_back=held_back,
            now=now,
            touched=spared,
        )
        if node.decision.spec is view.sharing.spec:
            self._missing.pop(name, None)
        else:
            self._missing[name] = ReplaceSpec(view.sharing, node.decision.spec, node.decision.notices)
        if node.decision.taint_rules:
            self._evictions[name] = node.decision.taint_rules
        else:
            self._evictions.pop(name, None)
        if node.decision.until is not None and node.decision.until != until:
            heapq.heappush(self._moments, (node.decision.until, name))
        return self._exchange(name, shares, node.decision.shares)

    def _exchange(self, node: str, before: Mapping[str, NodeShare], after: Mapping[str, NodeShare]) -> set[str]:
        changed = {policy for policy in before.keys() | after.keys() if before.get(policy) != after.get(policy)}
        # Those that have gone have no tally any more.
        for policy in changed & self._tallies.keys():
            if policy in before:
                self._tallies[policy].remove(node, before[policy])
            if policy in after:
                self._tallies[policy].add(node, after[policy])
        return changed

    def _say(self, name: str, now: str) -> None:
        policy = self.present.policies.get(name)
        self._unsaid.pop(name, None)
        if policy is None:
            return
        candidate = replace(self._candidates.by_name[name], policy=policy)
        complaints, untold = self._cluster.complaints.get(name, ()), name in self._cluster.untold
        status = policy_status(
            candidate, self._tallies[name], complaints, untold=untold, minor=self._setup.minor, now=now
        )
        if candidate.is_readable and status != policy.status:
            self._unsaid[name] = PatchStatus(policy, status)

    def _statuses(self) -> Mapping[str, SharingPolicyStatus]:
        """As they are, or are to be written."""
        unsaid = {name: intent.status for name, intent in self._unsaid.items()}
        return {name: policy.status for name, policy in self.present.policies.items()} | unsaid

    def _decide_cluster(self) -> ClusterDecision:
        return cluster_decision(
            Cluster(
                candidates=self._candidates.in_order,
                classes=self.present.classes,
                namespaces=self.present.namespaces,
                guards=self.present.guards,
                bindings=self.present.bindings,
                quotas=self.present.quotas,
                setup=self._setup,
            )
        )


def _is_past(moment: float | None, now: str) -> bool:
    return moment is not None and moment <= seconds(now)


def _parts(node: _Node | None) -> Mapping[str, Part]:
    return parts(node.rollout, node.wish.selected_by) if node else {}


def _says_the_same(before: SharingPolicy, after: SharingPolicy) -> bool:
    """Its status is our own doing."""
    metadata = replace(after.metadata, resource_version=before.metadata.resource_version)
    return before.metadata == metadata and before.spec == after.spec
