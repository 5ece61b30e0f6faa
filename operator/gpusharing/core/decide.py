"""The operator's decision: from one look at the world to the writes that are missing."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from gpusharing.api.dra import ResourceClaim
from gpusharing.api.sharing import (
    GpuSharing,
    GpuStatus,
    NodeSharingSpec,
)
from gpusharing.core import allocation
from gpusharing.core.acceptance import Candidate, examine
from gpusharing.core.amounts import mebibytes
from gpusharing.core.assign import assign
from gpusharing.core.claims import claim_entries
from gpusharing.core.intents import Intent, PatchStatus, ReplaceSpec
from gpusharing.core.occupancy import with_occupancy
from gpusharing.core.policy_status import clients_by_policy, node_share, policy_status
from gpusharing.core.resolution import resolve
from gpusharing.core.selection import Selection, selections_by_policy
from gpusharing.core.world import NodeView, World


def decide(world: World, *, now: str) -> list[Intent]:
    """Intents, nodes before statuses. Where the world is as it should be, there are none."""
    views = _views(world)
    candidates = [examine(world.policies[name], minor=world.minor) for name in sorted(world.policies)]
    selections = {view.name: selections_by_policy(candidates, view, world.driver) for view in views}
    decided = {view.name: _spec(candidates, selections[view.name], view, world, now=now) for view in views}
    clients = clients_by_policy(views, world.driver)
    intents: list[Intent] = [
        ReplaceSpec(view.sharing, decided[view.name]) for view in views if decided[view.name] != view.sharing.spec
    ]
    for candidate in candidates:
        shares = [
            node_share(candidate, view, decided[view.name], selections[view.name].get(candidate.name)) for view in views
        ]
        status = policy_status(candidate, shares, clients=clients.get(candidate.name, 0), now=now)
        if status != candidate.policy.status:
            intents.append(PatchStatus(candidate.policy, status))
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
        for node in allocation.nodes(claim, world.driver):
            found[node].append(claim)
    return found


def _spec(
    candidates: Sequence[Candidate], selections: Mapping[str, Selection], view: NodeView, world: World, *, now: str
) -> NodeSharingSpec:
    statuses = view.gpus
    uuids = [gpu.uuid for gpu in statuses]
    won = assign(candidates, selections=selections, uuids=uuids, before=view.sharing.spec.gpus)
    gpus = tuple(
        with_occupancy(_resolved(gpu, status), status, view, world.driver, idle_wait=world.idle_wait, now=now)
        for gpu, status in zip(won, statuses, strict=True)
    )
    return NodeSharingSpec(gpus=gpus, claims=claim_entries(view, gpus, world.driver))


def _resolved(gpu: GpuSharing, status: GpuStatus) -> GpuSharing:
    if gpu.offers is None:
        return gpu
    resolution = resolve(
        gpu.offers,
        memory_mib=mebibytes(status.memory),
        mig_profiles=status.mig_profiles,
        memory_wall=status.memory_wall,
        allow=gpu.allow,
    )
    # What stayed as it was is resolved already, and keeps what was said of it then.
    return gpu.model_copy(update={"offers": resolution.offers, "refused": gpu.refused + resolution.refused})
