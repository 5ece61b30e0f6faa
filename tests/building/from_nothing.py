"""The oracle of incremental decisions: the same decision from one look at the whole world."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from gpusharing.api.core import ResourceQuota, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from gpusharing.api.dra import DeviceClass, DeviceTaintRule, Namespace, Node, ResourceClaim
from gpusharing.api.meta import Key
from gpusharing.api.names import MANAGED_BY, OPERATOR, node_of_pool
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import IDLE_WAIT
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.templates import ResourceClaimTemplate
from gpusharing.core.claims.allocation import nodes_of, requested_classes
from gpusharing.core.cluster.cluster_decision import Cluster, ClusterDecider
from gpusharing.core.cluster.guards.closing import CLOSING
from gpusharing.core.cluster.guards.tenants_in_force import tenants_in_force
from gpusharing.core.cluster.guards.upkeep import REQUIRED, entries_of
from gpusharing.core.decision.fencing import Fencing
from gpusharing.core.decision.node_decision import NodeMemo, decide_node, propose
from gpusharing.core.events.waiting_claims import examine_class, explain, policy_of_class, waiting_events
from gpusharing.core.intents import Intent, PatchStatus, RecordEvent, ReplaceSpec
from gpusharing.core.policies.policy import ExaminedPolicies, examine
from gpusharing.core.rollout.budget import held_back, parts
from gpusharing.core.state.accounts import Accounts
from gpusharing.core.state.cluster_state import Setup, WaitingGroup
from gpusharing.core.state.fence import Fence
from gpusharing.core.state.node_view import NodeView
from gpusharing.core.state.seen_entries import SeenEntries
from gpusharing.core.status.policy_status import policy_status
from gpusharing.core.status.totals import fold
from gpusharing.core.verdicts.quota import Counting, Excess


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that the operator decides on, at one moment."""

    driver: str
    minor: int
    idle_wait: float = IDLE_WAIT
    policies: Mapping[str, SharingPolicy]
    nodes: Mapping[str, Node]
    node_sharings: Mapping[str, NodeSharing]
    claims: Mapping[Key, ResourceClaim]
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    guards: Mapping[str, ValidatingAdmissionPolicy] = field(default_factory=dict)
    bindings: Mapping[str, ValidatingAdmissionPolicyBinding] = field(default_factory=dict)
    seen_fence: Fence = field(default_factory=dict)
    entries: SeenEntries | None = None
    """What the guards of tenants were seen to know; None: all that they know."""
    quotas: Mapping[Key, ResourceQuota] = field(default_factory=dict)
    templates: Mapping[Key, ResourceClaimTemplate] = field(default_factory=dict)
    taint_rules: Mapping[str, DeviceTaintRule] | None = None
    """None where the API server has no such kind."""

    @property
    def seen_entries(self) -> SeenEntries:
        if self.entries is not None:
            return self.entries
        return {name: entries_of(guard) for name, guard in self.guards.items() if name in REQUIRED}

    @property
    def setup(self) -> Setup:
        return Setup(
            driver=self.driver,
            minor=self.minor,
            idle_wait=self.idle_wait,
            has_taint_rules=self.taint_rules is not None,
        )


def decide(world: World, *, now: str) -> list[Intent]:
    """All writes that are missing. Where the world is as it should be, there are none."""
    policies = _policies(world)
    tenants = tenants_in_force(policies.in_order, world.guards)
    views = node_views(world)
    memos = {view.name: NodeMemo(world.driver) for view in views}
    proposals = {view.name: propose(policies, view, memos[view.name]) for view in views}
    in_rollouts = {
        examined.name: {
            node: part
            for node, proposal in proposals.items()
            for name, part in parts(proposal.rollout, proposal.wanted.selected_by).items()
            if name == examined.name
        }
        for examined in policies.in_order
    }
    waiting_nodes = {
        name: held_back(policies.by_name[name].policy.spec.rollout, nodes) for name, nodes in in_rollouts.items()
    }
    beyond_quota = _beyond_quota(world, policies)
    fencing = Fencing(world.idle_wait)
    fencing.look(world.guards, world.bindings, world.seen_fence)
    decisions = {
        view.name: decide_node(
            policies,
            view,
            proposals[view.name],
            world.setup,
            memos[view.name],
            tenants=tenants,
            beyond_quota=beyond_quota,
            fence=fencing.in_force,
            stored=fencing.stored,
            held_back=frozenset(name for name, nodes in waiting_nodes.items() if view.name in nodes),
            now=now,
        )
        for view in views
    }
    for name, decision in decisions.items():
        fencing.put(name, decision.closing)
    fencing.decide(world.guards, world.bindings, now=now)
    cluster = ClusterDecider().decide(
        Cluster(
            policies=policies.in_order,
            classes=world.classes,
            namespaces=world.namespaces,
            guards={name: guard for name, guard in world.guards.items() if name != CLOSING},
            bindings=world.bindings,
            seen_entries=world.seen_entries,
            quotas=world.quotas,
            templates=world.templates,
            setup=world.setup,
        )
    )
    intents: list[Intent] = [*cluster.intents, *fencing.intents]
    intents += [
        ReplaceSpec(view.sharing, decisions[view.name].spec, decisions[view.name].notices)
        for view in views
        if decisions[view.name].spec != view.sharing.spec
    ]
    for view in views:
        intents += decisions[view.name].taint_rules
    for examined in policies.in_order:
        name = examined.name
        contributions = {
            node: decision.contributions[name] for node, decision in decisions.items() if name in decision.contributions
        }
        status = policy_status(
            examined,
            fold(contributions),
            cluster.complaints.get(name, ()),
            guards_pending=name in cluster.guards_pending,
            minor=world.minor,
            now=now,
        )
        if examined.is_readable and status != examined.policy.status:
            intents.append(PatchStatus(examined.policy, status))
    return intents


def events(world: World, *, now: str) -> list[RecordEvent]:
    """Of all claims that wait, in no order."""
    policies = _policies(world)
    pending = {one.before.metadata.name: one.status for one in decide(world, now=now) if isinstance(one, PatchStatus)}
    found: list[RecordEvent] = []
    for claim in world.claims.values():
        for name in requested_classes(claim) & world.classes.keys():
            policy = policy_of_class(world.classes[name])
            if policy is not None and policy in policies:
                examined = policies.by_name[policy]
                status = pending.get(policy, examined.policy.status)
                group = WaitingGroup(name, claim.metadata.namespace)
                state = examine_class(group.device_class, examined, status)
                why = explain(group, state, world.namespaces.get(group.namespace))
                found += waiting_events(claim, why) if why else ()
    return found


def _beyond_quota(world: World, policies: ExaminedPolicies) -> Excess:
    accounts = Accounts(world.driver)
    for claim in world.claims.values():
        accounts.replace(None, claim)
    counting = Counting(accounts, {("", name): sharing for name, sharing in world.node_sharings.items()}, world.driver)
    found: dict[str, str] = {}
    for account in accounts:
        found |= counting.excess(account, policies.quota_of(account.policy))
    return found


def node_views(world: World) -> list[NodeView]:
    """In the order of their names."""
    claims: defaultdict[str, list[ResourceClaim]] = defaultdict(list)
    for claim in world.claims.values():
        for node in nodes_of(claim, world.driver):
            claims[node].append(claim)
    return [
        NodeView(
            sharing=sharing,
            labels=world.nodes[name].metadata.labels,
            not_ready_since=world.nodes[name].not_ready_since,
            claims=tuple(claims.get(name, ())),
            namespaces=_labels(world, claims.get(name, ())),
            taint_rules=_rules_on(world, name),
            driver=world.driver,
        )
        for name, sharing in sorted(world.node_sharings.items())
        # Without its Node it is about to be garbage-collected.
        if name in world.nodes
    ]


def _policies(world: World) -> ExaminedPolicies:
    return ExaminedPolicies(examine(policy, minor=world.minor) for policy in world.policies.values())


def _labels(world: World, claims: Collection[ResourceClaim]) -> Mapping[str, Mapping[str, str]]:
    wanted = {claim.metadata.namespace for claim in claims}
    known = {name: world.namespaces[name].metadata.labels for name in wanted if name in world.namespaces}
    return {name: labels for name, labels in known.items() if labels is not None}


def _rules_on(world: World, node: str) -> tuple[DeviceTaintRule, ...] | None:
    if world.taint_rules is None:
        return None
    return tuple(
        rule
        for _, rule in sorted(world.taint_rules.items())
        if rule.metadata.labels.get(MANAGED_BY) == OPERATOR
        and node_of_pool(rule.spec.device_selector.get("pool", "")) == node
    )
