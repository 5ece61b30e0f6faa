"""What the agent of a node reports when it has done what the operator has written."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from gpusharing.api import names
from gpusharing.api.sharing.gpu_status import GpuStatus, MigInstanceStatus, MigMode, PublishedDevice
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import GpuSharing, NodeSharingSpec
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.planning.publishing import Settled, offered_gpu

_NOT_CLOSING: Mapping[str, Any] = {"drain": None, "close_approved": (), "close_approved_since": (), "closed_names": ()}


def reported(
    before: NodeSharing, gpus: Sequence[Settled], slices: Sequence[Mapping[str, Any]], decided: NodeSharingSpec
) -> NodeSharing:
    """`slices`: specs of what is published now. Nothing is closing any more: all waiting is over."""
    published: defaultdict[int, list[str]] = defaultdict(list)
    pools: dict[int, str] = {}
    for spec in slices:
        for device in spec.get("devices") or ():
            slot = names.slot_of_device(device["name"])
            if slot is not None:
                published[slot].append(device["name"])
                pools[slot] = spec["pool"]["name"]
    by_uuid = {one.uuid: one for one in decided.gpus}
    entries = tuple(_entry(one, by_uuid.get(one.entry.uuid)) for one in gpus)
    statuses = {one.entry.uuid: _status(one, published, pools) for one in gpus}
    wanted = decided.model_copy(update={"gpus": entries})
    status = before.status.model_copy(update={"gpus": tuple(statuses.get(one.uuid, one) for one in before.status.gpus)})
    return before.model_copy(update={"spec": wanted, "status": status})


def _entry(one: Settled, decided: GpuSharing | None) -> GpuSharing:
    allocated = decided.allocated if decided else one.entry.allocated
    return one.entry.model_copy(update={**_NOT_CLOSING, "allocated": allocated})


def _status(one: Settled, published: Mapping[int, Sequence[str]], pools: Mapping[int, str]) -> GpuStatus:
    status = one.view.status
    devices = published.get(status.slot, ())
    update: dict[str, Any] = {
        "policy": one.entry.policy,
        "pool": pools.get(status.slot, status.pool),
        "published": tuple(PublishedDevice(device=name) for name in sorted(devices)),
    }
    if not one.staying:
        offered = offered_gpu(one, {})
        update["instances"] = _instances(offered)
        if status.mig_mode is not None:
            update["mig_mode"] = MigMode(enabled=offered.mig_enabled, found=status.mig_mode.found)
    return status.model_copy(update=update)


def _instances(offered: OfferedGpu) -> tuple[MigInstanceStatus, ...]:
    by_id = {one.id: one.name for one in offered.gpu.mig.profiles} if offered.gpu.mig else {}
    return tuple(
        MigInstanceStatus(profile=by_id[one.place.profile_id], start=one.place.start, uuid=one.uuid)
        for one in offered.instances
    )
