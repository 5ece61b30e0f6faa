"""The operator's decision: from one look at the world to the writes that are missing."""

from collections import defaultdict
from collections.abc import Mapping

from gpusharing.api.dra import ResourceClaim
from gpusharing.core.cluster.cluster_decision import Cluster, cluster_decision
from gpusharing.core.decision.node_decision import Memory, changes, decision, wanted
from gpusharing.core.events.waiting_claims import classes_of, waiting_notices
from gpusharing.core.intents import Intent, PatchStatus, ReplaceSpec
from gpusharing.core.policies.policy import Candidates, examine
from gpusharing.core.rollout.budget import held_back
from gpusharing.core.state.node_view import World, node_views
from gpusharing.core.status.policy_status import policy_status
from gpusharing.core.status.totals import Tally


def decide(world: World, *, now: str) -> list[Intent]:
    """Intents, nodes before statuses. Where the world is as it should be, there are none."""
    candidates = Candidates(examine(policy, minor=world.minor) for policy in world.policies.values())
    views = node_views(world)
    memories = {view.name: Memory(world.driver) for view in views}
    wishes = {view.name: wanted(candidates, view, memories[view.name]) for view in views}
    rollouts = {
        view.name: changes(candidates, view, wishes[view.name], world.setup, memories[view.name]) for view in views
    }
    held = held_back(candidates.in_order, rollouts, {node: wish.selected_by for node, wish in wishes.items()})
    decisions = {
        view.name: decision(
            candidates,
            view,
            wishes[view.name],
            world.setup,
            memories[view.name],
            rollout=rollouts[view.name],
            held_back=held[view.name],
            now=now,
        )
        for view in views
    }
    tallies = {candidate.name: Tally() for candidate in candidates.in_order}
    for node, decided in decisions.items():
        for policy, share in decided.shares.items():
            tallies[policy].add(node, share)
    intents: list[Intent] = [
        ReplaceSpec(view.sharing, decisions[view.name].spec, decisions[view.name].notices)
        for view in views
        if decisions[view.name].spec != view.sharing.spec
    ]
    for view in views:
        intents += decisions[view.name].taint_rules
    cluster = cluster_decision(
        Cluster(
            candidates=candidates.in_order,
            classes=world.classes,
            namespaces=world.namespaces,
            guards=world.guards,
            bindings=world.bindings,
            quotas=world.quotas,
            setup=world.setup,
        )
    )
    intents += cluster.intents
    statuses = {candidate.name: candidate.policy.status for candidate in candidates.in_order}
    for candidate in candidates.in_order:
        name = candidate.name
        complaints, untold = cluster.complaints.get(name, ()), name in cluster.untold
        status = policy_status(candidate, tallies[name], complaints, untold=untold, minor=world.minor, now=now)
        if candidate.is_readable and status != candidate.policy.status:
            statuses[name] = status
            intents.append(PatchStatus(candidate.policy, status))
    intents += waiting_notices(
        _waiting(world),
        classes=world.classes,
        candidates=candidates.by_name,
        statuses=statuses,
        namespaces=world.namespaces,
        told=world.told,
    )
    return intents


def _waiting(world: World) -> Mapping[str, list[ResourceClaim]]:
    found: defaultdict[str, list[ResourceClaim]] = defaultdict(list)
    for claim in world.claims.values():
        for name in classes_of(claim):
            found[name].append(claim)
    return found
