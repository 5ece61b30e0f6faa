"""The operator's decision: from one look at the world to the writes that are missing."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from gpusharing.api.dra import ResourceClaim
from gpusharing.api.meta import Condition
from gpusharing.api.sharing import NodeSharing, NodeSharingSpec, SharingPolicy, SharingPolicyStatus
from gpusharing.core import allocation
from gpusharing.core.assign import assign
from gpusharing.core.claims import claim_entries
from gpusharing.core.policy_status import clients_by_policy, node_share, policy_status
from gpusharing.core.world import NodeView, World


@dataclass(frozen=True, slots=True)
class ReplaceSpec:
    """Write a NodeSharing's spec over the version that the decision was made on."""

    before: NodeSharing
    spec: NodeSharingSpec


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Write a policy's status; announce it where Ready changed."""

    before: SharingPolicy
    status: SharingPolicyStatus

    @property
    def announcement(self) -> Condition | None:
        old, new = (_ready(status) for status in (self.before.status, self.status))
        changed = new is not None and (old is None or old.status != new.status)
        return new if changed else None


Intent = ReplaceSpec | PatchStatus


def decide(world: World, *, now: str) -> list[Intent]:
    """Intents, nodes before statuses. Where the world is as it should be, there are none."""
    views = _views(world)
    policies = [world.policies[name] for name in sorted(world.policies)]
    decided = {view.name: _spec(policies, view, world.driver) for view in views}
    clients = clients_by_policy(views, world.driver)
    intents: list[Intent] = [
        ReplaceSpec(view.sharing, decided[view.name]) for view in views if decided[view.name] != view.sharing.spec
    ]
    for policy in policies:
        shares = [node_share(policy, view, decided[view.name]) for view in views]
        status = policy_status(policy, shares, clients=clients.get(policy.metadata.name, 0), now=now)
        if status != policy.status:
            intents.append(PatchStatus(policy, status))
    return intents


def _views(world: World) -> list[NodeView]:
    claims = _claims_by_node(world)
    return [
        NodeView(sharing=sharing, labels=world.nodes[name].metadata.labels, claims=tuple(claims.get(name, ())))
        for name, sharing in sorted(world.node_sharings.items())
        # Without its Node it is about to be garbage-collected.
        if name in world.nodes
    ]


def _claims_by_node(world: World) -> Mapping[str, list[ResourceClaim]]:
    found: defaultdict[str, list[ResourceClaim]] = defaultdict(list)
    for claim in world.claims.values():
        for pool in {result.pool for result in allocation.results(claim, world.driver)}:
            found[pool].append(claim)
    return found


def _spec(policies: list[SharingPolicy], view: NodeView, driver: str) -> NodeSharingSpec:
    sharing = view.sharing
    uuids = [gpu.uuid for gpu in sorted(sharing.status.gpus, key=lambda gpu: gpu.slot)]
    gpus = assign(policies, labels=view.labels, uuids=uuids, before=sharing.spec.gpus)
    return NodeSharingSpec(gpus=gpus, claims=claim_entries(view, gpus, driver))


def _ready(status: SharingPolicyStatus) -> Condition | None:
    return next((condition for condition in status.conditions if condition.type == "Ready"), None)
