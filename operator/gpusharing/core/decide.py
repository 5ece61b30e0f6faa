"""The operator's decision: from one look at the world to the writes that are missing."""

from gpusharing.core.acceptance import examine
from gpusharing.core.budget import held_back
from gpusharing.core.cluster_decision import Cluster, cluster_decision
from gpusharing.core.intents import Intent, PatchStatus, ReplaceSpec
from gpusharing.core.node_decision import changes, decision, wanted
from gpusharing.core.policy_status import policy_status
from gpusharing.core.selection import Selector
from gpusharing.core.tally import Tally
from gpusharing.core.world import World, node_views


def decide(world: World, *, now: str) -> list[Intent]:
    """Intents, nodes before statuses. Where the world is as it should be, there are none."""
    candidates = tuple(examine(world.policies[name], minor=world.minor) for name in sorted(world.policies))
    views = node_views(world)
    by_name = {candidate.name: candidate for candidate in candidates}
    wishes = {view.name: wanted(candidates, view, Selector(world.driver)) for view in views}
    rollouts = {view.name: changes(by_name, view, wishes[view.name], world.setup) for view in views}
    held = held_back(candidates, rollouts, {node: wish.selected_by for node, wish in wishes.items()})
    decisions = {
        view.name: decision(
            candidates,
            view,
            wishes[view.name],
            world.setup,
            rollout=rollouts[view.name],
            held_back=held[view.name],
            now=now,
        )
        for view in views
    }
    tallies = {candidate.name: Tally() for candidate in candidates}
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
            candidates=candidates,
            classes=world.classes,
            namespaces=world.namespaces,
            guards=world.guards,
            quotas=world.quotas,
            setup=world.setup,
        )
    )
    intents += cluster.intents
    for candidate in candidates:
        name = candidate.name
        complaints, untold = cluster.complaints.get(name, ()), name in cluster.untold
        status = policy_status(candidate, tallies[name], complaints, untold=untold, minor=world.minor, now=now)
        if candidate.is_readable and status != candidate.policy.status:
            intents.append(PatchStatus(candidate.policy, status))
    return intents
