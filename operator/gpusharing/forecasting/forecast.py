"""The ResourceSlices of a node on which nothing runs: the operator's decision on it, and the agent's publication."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, NamedTuple

from gpusharing.api import names
from gpusharing.api.meta import WholeMeta
from gpusharing.api.names import MigPlace
from gpusharing.api.sharing.gpu_status import GpuStatus, MemoryWallSupport, MigMode
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.core.decision.node_decision import NodeMemo, propose
from gpusharing.core.devices import reported_models
from gpusharing.core.devices.gpu import Board, Gpu, MigInstance
from gpusharing.core.devices.offered import AS_FOUND, OfferedGpu
from gpusharing.core.policies.policy import ExaminedPolicies
from gpusharing.core.publishing.abilities import as_decided, menu_group
from gpusharing.core.publishing.attributes import board_attributes
from gpusharing.core.publishing.menu import menu
from gpusharing.core.publishing.mig_at_rest import at_rest
from gpusharing.core.publishing.narrowing import GpuView, Publication, narrow
from gpusharing.core.publishing.slice_updates import slice_name
from gpusharing.core.publishing.slices import PublishedGpu, slice_specs
from gpusharing.core.state.node_view import NodeView

_FIRST_GENERATION: Final = 1


class Node(NamedTuple):
    name: str
    labels: Mapping[str, str]
    boards: Sequence[Board]
    memory_wall: MemoryWallSupport
    """Whether its driver can limit the memory of containers."""


class Forecast(NamedTuple):
    slices: tuple[dict[str, Any], ...]
    gpus: tuple[GpuSharing, ...]
    """What was decided on each GPU, in the order of their slots."""


def forecast(node: Node, policies: ExaminedPolicies, *, full_menus: int = 1, driver: str = names.DRIVER) -> Forecast:
    """When the devices are withdrawn that a new node publishes in its first minutes only."""
    decided = _decide(node, policies, driver)
    gpus = [_published(gpu, sharing, node) for gpu, sharing in zip(_gpus(node), decided, strict=True)]
    pools = [names.pool(node.name, restricted_to=sharing.restricted_to) for sharing in decided]
    views = [_view(offered, pool) for offered, pool in zip(gpus, pools, strict=True)]
    plans = narrow(views, now=0.0, menus=full_menus)
    members: dict[str, list[PublishedGpu]] = {}
    for offered, pool, plan in zip(gpus, pools, plans, strict=True):
        members.setdefault(pool, []).append(PublishedGpu(offered, plan.publication.entries))
    slices = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": slice_name(index, pool=pool, driver=driver)},
            "spec": spec,
        }
        for pool in sorted(members)
        for index, spec in enumerate(
            slice_specs(members[pool], node=node.name, pool=pool, driver=driver, generation=_FIRST_GENERATION)
        )
    ]
    return Forecast(tuple(slices), tuple(decided))


def found(node: Node) -> NodeSharingStatus:
    """What its agent reports first, as far as the operator decides on it."""
    return NodeSharingStatus(
        models=reported_models.described(node.boards),
        gpus=tuple(_reported(gpu, node.memory_wall) for gpu in _gpus(node)),
    )


def _decide(node: Node, policies: ExaminedPolicies, driver: str) -> tuple[GpuSharing, ...]:
    sharing = NodeSharing(metadata=WholeMeta(name=node.name), status=found(node))
    view = NodeView(sharing=sharing, labels=node.labels, claims=(), driver=driver)
    return propose(policies, view, NodeMemo(driver)).wanted.gpus


def _gpus(node: Node) -> list[Gpu]:
    return [
        Gpu(slot=slot, **{field.name: getattr(board, field.name) for field in fields(board)})
        for slot, board in enumerate(node.boards)
    ]


def _reported(gpu: Gpu, memory_wall: MemoryWallSupport) -> GpuStatus:
    return GpuStatus(
        uuid=gpu.uuid,
        slot=gpu.slot,
        minor=gpu.minor,
        model=gpu.product_name,
        memory=f"{gpu.memory_mib}Mi",
        usable_memory=f"{gpu.usable_mib}Mi",
        mig_profiles=tuple(profile.name for profile in gpu.mig.profiles) if gpu.mig else (),
        attributes=board_attributes(gpu),
        mig_mode=MigMode(enabled=False, found=False) if gpu.mig else None,
        memory_wall=memory_wall,
    )


def _published(gpu: Gpu, sharing: GpuSharing, node: Node) -> OfferedGpu:
    as_found = OfferedGpu(gpu=gpu, offers=AS_FOUND, policy=None, configured=True, memory_wall=node.memory_wall)
    offered = as_decided(as_found, sharing)
    cut = at_rest(offered, held=(), published=(), found_enabled=None)
    instances = tuple(MigInstance(place=place, uuid=_mig_uuid(gpu, place)) for place in sorted(cut.places))
    return replace(
        offered,
        mig_enabled=bool(cut.mig_mode or instances),
        instances=instances,
        restricted=sharing.restricted_to is not None,
    )


def _mig_uuid(gpu: Gpu, place: MigPlace) -> str:
    return f"MIG-{uuid.uuid5(uuid.NAMESPACE_OID, f'{gpu.uuid}/{place.profile_id}/{place.start}')}"


def _view(offered: OfferedGpu, pool: str) -> GpuView:
    return GpuView(
        gpu=offered.gpu,
        group=menu_group(offered),
        menu=menu(offered),
        policy=offered.policy.name if offered.policy else None,
        pool=pool,
        configured=True,
        # Nothing is left of an earlier time.
        published=Publication(pool=pool, complete=True),
    )
