"""The decision on the whole cluster, kept up to date: only what a change concerns is decided again.

A failure concerns the node or policy that it is about, and nothing else: that stays as it was, the failure is reported,
and the decision is tried again when the object changes.
"""

import heapq
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from gpusharing.api.core import ResourceQuota, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from gpusharing.api.dra import DeviceClass, Namespace
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.policy_status import LaggingNode, LagReason, SharingPolicyStatus
from gpusharing.api.templates import ResourceClaimTemplate
from gpusharing.core.claims.allocation import nodes_of, policies_of
from gpusharing.core.cluster.cluster_decision import Cluster, ClusterDecider
from gpusharing.core.cluster.decided import ClusterDecision
from gpusharing.core.cluster.guards.closing import CLOSING
from gpusharing.core.cluster.guards.tenants_in_force import TenantsInForce, tenants_in_force
from gpusharing.core.cluster.guards.upkeep import Bindings, Guards
from gpusharing.core.decision.failures import Failure, Failures
from gpusharing.core.decision.fencing import Fencing
from gpusharing.core.decision.node_decision import NodeDecision, NodeMemo, Proposal, decide_node, propose
from gpusharing.core.decision.waiting import WaitingClaims
from gpusharing.core.events.waiting_claims import ClassState, examine_class
from gpusharing.core.figures.figures import Figures
from gpusharing.core.figures.pending_claims import not_allocated
from gpusharing.core.figures.policies import policy_figures
from gpusharing.core.figures.quota_use import quota_use
from gpusharing.core.figures.rows import bounded, largest
from gpusharing.core.intents import Intent, PatchStatus, RecordEvent, ReplaceSpec, decided_on
from gpusharing.core.policies.policy import ExaminedPolicies, ExaminedPolicy, broken, examine
from gpusharing.core.rollout.budget import Part, held_back, parts
from gpusharing.core.rollout.gpu_change import NodeRollout
from gpusharing.core.state.accounts import Account, accounts_of
from gpusharing.core.state.cluster_state import Changes, ClusterState, Setup
from gpusharing.core.state.node_view import NodeView
from gpusharing.core.status.contribution import Contribution
from gpusharing.core.status.policy_status import policy_status
from gpusharing.core.status.totals import fold
from gpusharing.core.timestamps import seconds
from gpusharing.core.verdicts.quota import NO_EXCESS, Counting, Excess

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class _Node:
    """A node as it was looked at last."""

    memo: NodeMemo
    view: NodeView
    proposal: Proposal
    decision: NodeDecision | None = None


class Decider:
    def __init__(self, setup: Setup) -> None:
        self.state = ClusterState(setup)
        self._setup = setup
        self._policies = ExaminedPolicies()
        self._tenants: TenantsInForce = {}
        self._excess: dict[Account, Excess] = {}
        self._beyond_quota: Excess = NO_EXCESS
        """Of all accounts."""
        self._nodes: dict[str, _Node] = {}
        self._parts: defaultdict[str, dict[str, Part]] = defaultdict(dict)
        """By policy and node."""
        self._contributions: defaultdict[str, dict[str, Contribution]] = defaultdict(dict)
        """By policy and node."""
        self._held_back: dict[str, frozenset[str]] = {}
        """By policy, the nodes on which it may not begin yet."""
        self._moments: list[tuple[float, str]] = []
        """When time alone changes the decision on a node."""
        self._fencing = Fencing(setup.idle_wait)
        self._cluster_decider = ClusterDecider()
        self._cluster = ClusterDecision()
        self._unfolded: set[str] = set()
        """Policies whose status may have to change."""
        self._specs: dict[str, ReplaceSpec] = {}
        self._taint_rules: dict[str, Sequence[Intent]] = {}
        self._statuses: dict[str, PatchStatus] = {}
        self._folded: dict[str, SharingPolicyStatus] = {}
        """As they are, or are to be."""
        self._failures = Failures()
        self._waiting = WaitingClaims(self.state, self._failures)

    @property
    def pending(self) -> list[Intent]:
        """All writes that are decided and not seen in the API yet."""
        return [
            *self._cluster.intents,
            *self._fencing.intents,
            *(self._specs[name] for name in sorted(self._specs)),
            *(intent for name in sorted(self._taint_rules) for intent in self._taint_rules[name]),
            *(self._statuses[name] for name in sorted(self._statuses)),
        ]

    @property
    def rollouts(self) -> Mapping[str, NodeRollout]:
        """By node, what changes there: also what may not begin yet."""
        return {name: node.proposal.rollout for name, node in self._nodes.items()}

    @property
    def parts(self) -> Mapping[str, Mapping[str, Part]]:
        """By policy and node, how far its rollout is."""
        return self._parts

    @property
    def examined(self) -> ExaminedPolicies:
        return self._policies

    @property
    def waiting_events(self) -> list[RecordEvent]:
        """What people should know of claims that wait."""
        return self._waiting.events

    def take_events(self) -> Sequence[RecordEvent]:
        """Those of them that came since they were taken last."""
        return self._waiting.take_events()

    @property
    def figures(self) -> Figures:
        classes = {name: policy for name, policy in self._waiting.policies.items() if policy in self._folded}
        pending = not_allocated(self.state.waiting, classes, self._waiting.reasons)
        for node in self._nodes.values():
            pending.update(node.decision.denied if node.decision else ())
        known = (examined.policy for examined in self._policies.in_order)
        return Figures(
            policies={
                name: policy_figures(status, self._contributions.get(name, {}).values())
                for name, status in self._folded.items()
            },
            pending_claims=bounded(pending, largest(pending)),
            quota_use=quota_use(known, self.state.all(ResourceQuota).values()),
        )

    @property
    def failing(self) -> AbstractSet[tuple[str, str]]:
        """What cannot be decided on, by kind and name."""
        return self._failures.failing

    def take_failures(self) -> Sequence[Failure]:
        """Those that came since they were taken last."""
        return self._failures.take()

    def next_in(self, *, now: str) -> float | None:
        """In how many seconds time alone may change the decision."""
        moments = [self._fencing.until, self._moments[0][0] if self._moments else None]
        return min((max(0.0, moment - seconds(now)) for moment in moments if moment is not None), default=None)

    def steps(self, *, now: str) -> Iterator[None]:
        """Decides on what has changed, in steps of a few milliseconds; between two of them other work may run."""
        changes = self.state.take_changes()
        try:
            yield from self._take_in(changes, now)
        except Exception:
            # Half of them may have been taken in: the next round begins from nothing.
            self.state.give_back(changes)
            self.state.mark_everything()
            self._policies, self._held_back = ExaminedPolicies(), {}
            raise

    def _take_in(self, changes: Changes, now: str) -> Iterator[None]:
        edited = yield from self._examine(changes.policies)
        yield
        affected = self._update_tenants() if edited or changes.cluster else set()
        concerned = yield from self._concerned(edited, affected)
        due = changes.nodes | self._due(now) | concerned | self._count(changes, edited)
        if changes.cluster or changes.fence or changes.renewed:
            guarded = self._fencing.look(*self._guards, self.state.seen_fence)
            due |= self._nodes.keys() if guarded is None else guarded & self._nodes.keys()
        moved = {examined.name for examined in edited}
        for name in sorted(due):
            moved |= self._propose(name)
            yield
        while due or moved:
            # A node that is through, or on which the decision fails, makes room for others.
            due |= yield from self._hold_back(moved)
            moved = set()
            for name in sorted(due):
                moved |= self._decide(name, now)
                yield
            due = set()
        if edited or changes.cluster or self._has_renewed(changes):
            self._decide_cluster()
            self._waiting.forget_classes()
        self._fencing.decide(*self._guards, now=now)
        self._unfolded |= changes.policies
        self._waiting.add_changes(changes.waiting)

    def fold_statuses(self, *, now: str) -> Iterator[None]:
        """Brings the statuses of policies up to date, in such steps as well."""
        # Those that were not written yet get the time of their writing.
        for name in sorted(self._unfolded | self._statuses.keys()):
            self._fold(name, now)
            yield
        yield from self._waiting.explain(self._examine_class)

    def _is_examined(self, policy: SharingPolicy) -> bool:
        examined = self._policies.by_name.get(policy.metadata.name)
        if examined is None:
            return False
        known, newest = examined.policy.metadata, policy.metadata
        return (known.uid, known.generation) == (newest.uid, newest.generation)

    def _examine_class(self, name: str, owner: str) -> ClassState | None:
        policy = self.state.get(SharingPolicy, ("", owner))
        if policy is None or not self._is_examined(policy):
            return None
        return examine_class(name, self._policies.by_name[owner], self._status_of(policy))

    def _status_of(self, policy: SharingPolicy) -> SharingPolicyStatus:
        """As it is, or is to be written."""
        pending = self._statuses.get(policy.metadata.name)
        return pending.status if pending else policy.status

    def _fold(self, name: str, now: str) -> None:
        self._unfolded.discard(name)
        self._statuses.pop(name, None)
        policy = self.state.get(SharingPolicy, ("", name))
        if policy is None:
            self._folded.pop(name, None)
            self._failures.remove("SharingPolicyStatus", name)
            return
        if not self._is_examined(policy):
            # It came during the last round: a status must not speak of a generation that was not decided on.
            self._unfolded.add(name)
            return
        try:
            self._put_status(policy, now)
        except Exception as error:  # noqa: BLE001 (of whatever kind: it concerns this policy alone)
            self._failures.add("SharingPolicyStatus", name, error)
        else:
            self._failures.remove("SharingPolicyStatus", name)

    def _put_status(self, policy: SharingPolicy, now: str) -> None:
        name = policy.metadata.name
        examined = replace(self._policies.by_name[name], policy=policy)
        status = policy_status(
            examined,
            fold(self._contributions[name]),
            self._cluster.complaints.get(name, ()),
            guards_pending=name in self._cluster.guards_pending,
            minor=self._setup.minor,
            now=now,
        )
        self._folded[name] = status
        if examined.is_readable and status != policy.status:
            self._statuses[name] = PatchStatus(policy, status)

    def _examine(self, names: Iterable[str]) -> Generator[None, None, list[ExaminedPolicy]]:
        """Takes in policies; those because of which nodes have to be decided on again, as they were and as they are."""
        edited: list[ExaminedPolicy] = []
        by_name = dict(self._policies.by_name)
        for name in names:
            before, policy = by_name.get(name), self.state.get(SharingPolicy, ("", name))
            if before and policy and _says_the_same(before.policy, policy):
                continue
            self._failures.remove("SharingPolicy", name)
            edited += [before] if before else []
            if policy is None:
                by_name.pop(name, None)
                for forgotten in (self._parts, self._contributions, self._held_back):
                    forgotten.pop(name, None)
            else:
                by_name[name] = self._examined(policy)
                edited.append(by_name[name])
            yield
        if edited:
            self._policies = ExaminedPolicies(by_name.values())
        return edited

    def _examined(self, policy: SharingPolicy) -> ExaminedPolicy:
        try:
            return examine(policy, minor=self._setup.minor)
        except Exception as error:  # noqa: BLE001 (of whatever kind: it concerns this policy alone)
            self._failures.add("SharingPolicy", policy.metadata.name, error)
            return broken(policy, error)

    def _due(self, now: str) -> set[str]:
        due: set[str] = set()
        while self._moments and self._moments[0][0] <= seconds(now):
            due.add(heapq.heappop(self._moments)[1])
        return due & self._nodes.keys()

    @property
    def _guards(self) -> tuple[Guards, Bindings]:
        return self.state.by_name(ValidatingAdmissionPolicy), self.state.by_name(ValidatingAdmissionPolicyBinding)

    def _update_tenants(self) -> set[str]:
        """The policies with other tenants than before."""
        guards = self.state.by_name(ValidatingAdmissionPolicy)
        before, self._tenants = self._tenants, tenants_in_force(self._policies.in_order, guards)
        names = before.keys() | self._tenants.keys()
        return {name for name in names if before.get(name) != self._tenants.get(name)}

    def _count(self, changes: Changes, edited: Iterable[ExaminedPolicy]) -> set[str]:
        """The nodes of claims that are beyond a quota now, or are not any more."""
        accounts, driver = self.state.accounts, self._setup.driver
        of_edited = {examined.name for examined in edited}
        changed = changes.accounts | {account for account in accounts if account.policy in of_edited}
        if self._excess:
            # On their nodes others may have been allowed.
            claims = [claim for node in changes.nodes for claim in self.state.claims_on(node)]
            changed |= {account for claim in claims for account in accounts_of(claim, driver)} & self._excess.keys()
        counting = Counting(accounts, self.state.all(NodeSharing), driver)
        turned: set[str] = set()
        is_another = False
        for account in changed:
            before = self._excess.pop(account, NO_EXCESS)
            after = counting.excess(account, self._policies.quota_of(account.policy))
            if after:
                self._excess[account] = after
            if before == after:
                continue
            is_another = True
            for claim in accounts.claims(account):
                if before.get(claim.metadata.uid) != after.get(claim.metadata.uid):
                    turned |= nodes_of(claim, driver)
        if is_another:
            self._beyond_quota = dict(chain.from_iterable(found.items() for found in self._excess.values()))
        return turned

    def _concerned(self, edited: Sequence[ExaminedPolicy], affected: set[str]) -> Generator[None, None, set[str]]:
        """The nodes that an edited policy concerns, that one with other tenants has GPUs or claims on, or that were
        undecidable before."""
        names = affected | {examined.name for examined in edited}
        if not names:
            return set()
        concerned = {name for kind, name in self.failing if kind == "NodeSharing"}
        for name, node in self._nodes.items():
            if not names.isdisjoint(self._named_on(node.view)) or any(
                name in self._contributions.get(examined.name, ())
                or examined.policy.spec.nodes.matches(node.view.labels)
                for examined in edited
            ):
                concerned.add(name)
            yield
        return concerned

    def _named_on(self, view: NodeView) -> set[str]:
        """Policies that have GPUs or claims on the node."""
        names = {gpu.policy.name for gpu in view.sharing.spec.gpus if gpu.policy}
        return names.union(*(policies_of(claim, self._setup.driver) for claim in view.claims))

    def _propose(self, name: str) -> set[str]:
        """What the policies want of the node. The policies whose rollouts it now stands in differently."""
        view = self.state.view(name)
        if view is None:
            self._nodes.pop(name, None)
            return self._put_parts(name, {})
        node = self._nodes.get(name)
        memo = node.memo if node else NodeMemo(self._setup.driver)
        try:
            proposal = propose(self._policies, view, memo)
        except Exception as error:  # noqa: BLE001 (of whatever kind: it concerns this node alone)
            return self._cannot_decide(view, error)
        self._nodes[name] = _Node(memo=memo, view=view, proposal=proposal, decision=node.decision if node else None)
        return self._put_parts(name, parts(proposal.rollout, proposal.wanted.selected_by))

    def _put_parts(self, node: str, after: Mapping[str, Part]) -> set[str]:
        return _exchange(self._parts, node, {name: part for name, part in after.items() if name in self._policies})

    def _hold_back(self, policies: Iterable[str]) -> Generator[None, None, set[str]]:
        """Nodes on which one of these policies may begin now, or may not any more."""
        turned: set[str] = set()
        for name in policies:
            before = self._held_back.pop(name, frozenset())
            if name in self._policies:
                rollout = self._policies.by_name[name].policy.spec.rollout
                self._held_back[name] = held_back(rollout, self._parts[name])
            turned |= before ^ self._held_back.get(name, frozenset())
            yield
        return turned & self._nodes.keys()

    def _decide(self, name: str, now: str) -> set[str]:
        """What is written about the node. The policies whose rollouts it now stands in differently."""
        node = self._nodes.get(name)
        if node is None:
            if self.state.view(name) is None:
                self._fencing.put(name, {})
                self._forget(name)
            return set()
        asking = node.proposal.rollout.asking
        try:
            decision = decide_node(
                self._policies,
                node.view,
                node.proposal,
                self._setup,
                node.memo,
                tenants=self._tenants,
                beyond_quota=self._beyond_quota,
                fence=self._fencing.in_force,
                stored=self._fencing.stored,
                held_back=frozenset(policy for policy in asking if name in self._held_back.get(policy, ())),
                now=now,
            )
        except Exception as error:  # noqa: BLE001 (of whatever kind: it concerns this node alone)
            return self._cannot_decide(node.view, error)
        self._failures.remove("NodeSharing", name)
        until, node.decision = node.decision.until if node.decision else None, decision
        _put(self._specs, name, _write(node.view.sharing, decision))
        _put(self._taint_rules, name, decision.taint_rules)
        if decision.until is not None and decision.until != until:
            heapq.heappush(self._moments, (decision.until, name))
        self._fencing.put(name, decision.closing)
        self._contribute(name, decision.contributions)
        return set()

    def _contribute(self, node: str, after: Mapping[str, Contribution]) -> None:
        known = {name: one for name, one in after.items() if name in self._policies}
        self._unfolded |= _exchange(self._contributions, node, known)

    def _forget(self, name: str) -> None:
        self._nodes.pop(name, None)
        self._specs.pop(name, None)
        self._taint_rules.pop(name, None)
        self._failures.remove("NodeSharing", name)
        self._contribute(name, {})

    def _cannot_decide(self, view: NodeView, error: Exception) -> set[str]:
        """Its configuration stays as it is, and each policy that selects it says so. It does not begin anything, and
        what goes on there keeps its place. The policies whose rollouts it now stands in differently."""
        self._forget(view.name)
        self._failures.add("NodeSharing", view.name, error)
        self._contribute(
            view.name,
            {
                examined.name: _undecided(view.name, error)
                for examined in self._policies.in_order
                if examined.policy.spec.nodes.matches(view.labels)
            },
        )
        before = {policy: nodes[view.name] for policy, nodes in self._parts.items() if view.name in nodes}
        return self._put_parts(view.name, {policy: part._replace(asking=False) for policy, part in before.items()})

    def _has_renewed(self, changes: Changes) -> bool:
        """Whether a pending write names a version that is not the newest any more."""
        named = {known.uid for intent in self._cluster.intents if (known := decided_on(intent))}
        return not changes.renewed.isdisjoint(named)

    def _decide_cluster(self) -> None:
        before = self._cluster
        try:
            self._cluster = self._cluster_decider.decide(
                Cluster(
                    policies=self._policies.in_order,
                    classes=self.state.by_name(DeviceClass),
                    namespaces=self.state.by_name(Namespace),
                    guards={name: guard for name, guard in self._guards[0].items() if name != CLOSING},
                    bindings=self.state.by_name(ValidatingAdmissionPolicyBinding),
                    seen_entries=self.state.seen_entries,
                    quotas=self.state.all(ResourceQuota),
                    templates=self.state.all(ResourceClaimTemplate),
                    setup=self._setup,
                )
            )
        except Exception as error:  # noqa: BLE001 (nodes go on as they are)
            self._failures.add("Cluster", "", error)
        else:
            self._failures.remove("Cluster", "")
        self._unfolded |= before.differs_for(self._cluster)


def _says_the_same(before: SharingPolicy, after: SharingPolicy) -> bool:
    """Its status is our own doing."""
    metadata = replace(after.metadata, resource_version=before.metadata.resource_version)
    return before.metadata == metadata and before.spec == after.spec


def _undecided(node: str, error: Exception) -> Contribution:
    message = "the operator cannot decide on this node: see condition Degraded"
    lagging = LaggingNode(node=node, reason=LagReason.UNDECIDED, message=message)
    return Contribution(selected=True, undecided=f"{node}: {type(error).__name__}", lagging=lagging)


def _write(sharing: NodeSharing, decision: NodeDecision) -> ReplaceSpec | None:
    return None if decision.spec is sharing.spec else ReplaceSpec(sharing, decision.spec, decision.notices)


def _put(pending: dict[str, T], name: str, wanted: T | None) -> None:
    if wanted:
        pending[name] = wanted
    else:
        pending.pop(name, None)


def _exchange(by_policy: defaultdict[str, dict[str, T]], node: str, after: Mapping[str, T]) -> set[str]:
    """Puts what is known of the node in the place of what was. The policies for which it differs."""
    before = {policy: nodes[node] for policy, nodes in by_policy.items() if node in nodes}
    turned = {policy for policy in before.keys() | after.keys() if before.get(policy) != after.get(policy)}
    for policy in turned:
        if policy in after:
            by_policy[policy][node] = after[policy]
        else:
            del by_policy[policy][node]
    return turned
