"""A small model of what happens around the decisions: the API server keeps what is written, agents act on it."""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Final, TypeVar

import pydantic

from building import NOW
from building.from_nothing import World, node_views
from building.quantities import stored_quota
from gpusharing.api import names
from gpusharing.api.dra import DeviceTaintRule, ResourceClaim
from gpusharing.api.meta import ObjectMeta, key_of
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.api.sharing.gpu_status import GpuStatus, PublishedDevice
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.api.sharing.node_status import ClaimStatus
from gpusharing.api.sharing.offers import Offers
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.claims import allocation
from gpusharing.core.devices.offered import AS_FOUND
from gpusharing.core.intents import Create, Delete, Intent, Patch, PatchStatus, ReplaceSpec, Target
from gpusharing.core.rollout.gpu_progress import blocking_holds
from gpusharing.kube.kinds import ADMISSION_POLICIES, DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_QUOTAS, Kind

T = TypeVar("T")
K = TypeVar("K")

_TAINT_RULES: Final = pydantic.TypeAdapter(DeviceTaintRule)


def apply(world: World, intents: Iterable[Intent]) -> World:
    """The world after the writes: a new spec is a new generation."""
    policies, sharings, rules = dict(world.policies), dict(world.node_sharings), dict(world.taint_rules or {})
    for intent in intents:
        match intent:
            case ReplaceSpec(before=before, spec=spec):
                metadata = replace(before.metadata, generation=before.metadata.generation + 1)
                sharings[metadata.name] = before.model_copy(update={"metadata": metadata, "spec": spec})
            case PatchStatus(before=policy, status=status):
                policies[policy.metadata.name] = policy.model_copy(update={"status": status})
            case Create(target=Target.DEVICE_TAINT_RULE, body=body):
                rules[body["metadata"]["name"]] = _TAINT_RULES.validate_python(body)
            case Delete(target=Target.DEVICE_TAINT_RULE, before=metadata):
                del rules[metadata.name]
            case Create() | Patch() | Delete():
                world = _written(world, intent)
    return replace(
        world,
        policies=policies,
        node_sharings=sharings,
        taint_rules=None if world.taint_rules is None else rules,
    )


def _written(world: World, intent: Create | Patch | Delete) -> World:
    match intent.target:
        case Target.DEVICE_CLASS:
            return replace(world, classes=_kept(DEVICE_CLASSES, world.classes, intent, _name))
        case Target.ADMISSION_POLICY:
            return replace(world, guards=_kept(ADMISSION_POLICIES, world.guards, intent, _name))
        case Target.RESOURCE_QUOTA:
            return replace(world, quotas=_kept(RESOURCE_QUOTAS, world.quotas, _as_stored(intent), _full_name))
        case Target.RESOURCE_CLAIM_TEMPLATE:
            return replace(world, templates=_kept(RESOURCE_CLAIM_TEMPLATES, world.templates, intent, _full_name))
    raise NotImplementedError(intent.target)


def _as_stored(intent: Create | Patch | Delete) -> Create | Patch | Delete:
    return intent if isinstance(intent, Delete) else replace(intent, body=stored_quota(intent.body))


def _name(metadata: ObjectMeta) -> str:
    return metadata.name


def _full_name(metadata: ObjectMeta) -> tuple[str, str]:
    return metadata.namespace, metadata.name


def _kept(
    kind: Kind[T], objects: Mapping[K, T], intent: Create | Patch | Delete, key: Callable[[ObjectMeta], K]
) -> dict[K, T]:
    match intent:
        case Create(body=body):
            made: Any = kind.from_json(body)
            return {**objects, key(made.metadata): made}
        case Patch(before=before, body=body):
            dumped = pydantic.TypeAdapter(kind.model).dump_python(objects[key(before)], by_alias=True, mode="json")
            return {**objects, key(before): kind.from_json(merged(dumped, body))}
        case Delete(before=before):
            return {name: item for name, item in objects.items() if name != key(before)}


def merged(value: Any, patch: Any) -> Any:
    """A merge patch, as the API server does it."""
    if not isinstance(patch, dict):
        return patch
    before = value if isinstance(value, dict) else {}
    after = {key: merged(before.get(key), item) for key, item in patch.items() if item is not None}
    return {key: item for key, item in before.items() if key not in patch} | after


def agents_act(world: World) -> World:
    """Each agent puts in force what its node's spec says, unless that needs a GPU which somebody holds."""
    held = {
        (result.pool, result.device)
        for claim in world.claims.values()
        for result in allocation.results(claim, world.driver)
    }
    sharings = {name: _act(sharing, held) for name, sharing in world.node_sharings.items()}
    return replace(world, node_sharings=sharings)


def pods_are_evicted(world: World) -> World:
    """Claims that are in the way of what drains leave at once."""
    leaving = {
        hold.uid
        for view in node_views(world)
        for entry in view.sharing.spec.gpus
        if entry.uuid in view.gpus and entry.drain
        for hold in blocking_holds(entry, view.gpus[entry.uuid])
    }
    staying = {key: claim for key, claim in world.claims.items() if claim.metadata.uid not in leaving}
    return replace(world, claims=staying)


def _act(sharing: NodeSharing, held: AbstractSet[tuple[str, str]]) -> NodeSharing:
    wanted = {gpu.uuid: gpu for gpu in sharing.spec.gpus}
    devices = sorted(device for node, device in held if node == sharing.metadata.name)
    slots = {names.slot_of_device(device) for device in devices}
    gpus = tuple(_put_in_force(gpu, wanted.get(gpu.uuid), in_use=gpu.slot in slots) for gpu in sharing.status.gpus)
    generation = sharing.metadata.generation
    update = {"observed_generation": generation, "gpus": gpus, "claims": tuple(map(claim_status, devices))}
    status = sharing.status.model_copy(update=update)
    return sharing.model_copy(update={"status": status})


def claim_status(device: str) -> ClaimStatus:
    """What an agent reports of a claim that holds the device."""
    return ClaimStatus(
        uid=f"uid-{device}", claim=f"default/{device}", settings=(DeviceSettings(request="gpu", device=device),)
    )


def _put_in_force(status: GpuStatus, wanted: GpuSharing | None, *, in_use: bool) -> GpuStatus:
    if wanted is None:
        return status
    published = _devices(status.slot, wanted.offers or AS_FOUND)
    before = status.published or _devices(status.slot, AS_FOUND)
    if in_use and published != before:
        published = tuple(device.model_copy(update={"closing_since": NOW}) for device in before)
    return status.model_copy(update={"policy": wanted.policy, "published": published})


def _devices(slot: int, offers: Offers) -> tuple[PublishedDevice, ...]:
    ways = {
        names.whole_device(slot): offers.exclusive,
        names.time_sliced_device(slot): offers.time_slicing,
        names.mps_device(slot): offers.mps,
        names.mig_device(slot, "1g.10gb", names.MigPlace(19, 0)): offers.mig,
    }
    return tuple(PublishedDevice(device=device) for device, offer in ways.items() if offer)


def with_claims(world: World, *claims: ResourceClaim) -> World:
    return replace(world, claims={**world.claims, **{key_of(claim): claim for claim in claims}})


def with_policies(world: World, *policies: SharingPolicy) -> World:
    return replace(world, policies={**world.policies, **{policy.metadata.name: policy for policy in policies}})
