"""The operator's decision: from one look at the world to the writes that are missing."""

from collections import defaultdict
from collections.abc import Mapping

from gpusharing.api.dra import ResourceClaim
from gpusharing.api.sharing import GpuSharing, SharingPolicyStatus
from gpusharing.core.acceptance import examine
from gpusharing.core.cluster_decision import Cluster, cluster_intents
from gpusharing.core.intents import Intent, PatchStatus, ReplaceSpec
from gpusharing.core.node_decision import Wanted, decision, wanted
from gpusharing.core.policy_status import policy_status
from gpusharing.core.selection import Selector
from gpusharing.core.tally import Tally
from gpusharing.core.waiting import classes_of, waiting_notices
from gpusharing.core.world import World, node_views


def decide(world: World, *, now: str) -> list[Intent]:
    """Intents, nodes before statuses. Where the world is as it should be, there are none."""
    candidates = tuple(examine(world.policies[name], minor=world.minor) for name in sorted(world.policies))
    views = node_views(world)
    wishes = {view.name: wanted(candidates, view, Selector(world.driver)) for view in views}
    admitted = _admitted(wishes)
    decisions = {
        view.name: decision(candidates, view, wishes[view.name], admitted[view.name], world.setup, now=now)
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
    intents += cluster_intents(
        Cluster(candidates=candidates, classes=world.classes, namespaces=world.namespaces, setup=world.setup)
    )
    statuses: dict[str, SharingPolicyStatus] = {}
    for candidate in candidates:
        status = policy_status(candidate, tallies[candidate.name], now=now)
        statuses[candidate.name] = status
        if status != candidate.policy.status:
            intents.append(PatchStatus(candidate.policy, status))
    intents += waiting_notices(_waiting(world), world.classes, statuses, world.told)
    return intents


def _waiting(world: World) -> Mapping[str, list[ResourceClaim]]:
    found: defaultdict[str, list[ResourceClaim]] = defaultdict(list)
    for claim in world.claims.values():
        for name in classes_of(claim):
            found[name].append(claim)
    return found


def _admitted(wishes: Mapping[str, Wanted]) -> Mapping[str, tuple[GpuSharing, ...]]:
    """What may come into force now, by node: all of it."""
    return {node: wish.gpus for node, wish in wishes.items()}
