"""What a claim's devices are set to: the last matching config of the claim or its class, filled in by the policy."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from gpusharing.api import names, nvidia
from gpusharing.api.dra import AllocationConfig, AllocationResult
from gpusharing.api.sharing.device_settings import DeviceSettings, MemorySettings, MpsSettings, SettingSources
from gpusharing.api.sharing.gpu_status import NOT_REPORTED, MemoryWallSupport
from gpusharing.api.sharing.node_spec import PolicyReference
from gpusharing.api.sharing.offers import Enforcement, Interval, Offers, TimeSlicingMemory
from gpusharing.api.sharing.tenants import Allowance
from gpusharing.core import quantities
from gpusharing.core.claims import config_limits

C = TypeVar("C", nvidia.GpuConfig, nvidia.MigDeviceConfig)
Asked: TypeAlias = tuple[C, str] | None
"""A config, and where it stands."""
ClaimedGpus: TypeAlias = Sequence[tuple[AllocationResult, str]]
"""The devices of a claim on the node, each with the uuid of its GPU."""

_SOURCES: Final = {"FromClaim": "claim", "FromClass": "class"}
_INDEX: Final = re.compile("[+-]?[0-9]{1,3}")
# In mebibytes. To NVIDIA's driver amounts of 2^63 bytes and more are others than those that were written.
_MOST_MEMORY: Final = 2**43


class SettingsError(ValueError):
    """The claim asks for something that this device cannot be. The message names the request, the field, the remedy."""

    def __init__(self, problem: str, *, request: str = "") -> None:
        super().__init__(f"request {request}: {problem}" if request else problem)
        self.problem = problem
        """Without the request: others may have the same."""


def resolve(
    result: AllocationResult,
    configs: Sequence[AllocationConfig],
    offers: Offers,
    policy: PolicyReference | None,
    *,
    gpus: ClaimedGpus = (),
    allow: Allowance | None = None,
    memory_wall: MemoryWallSupport = NOT_REPORTED,
) -> DeviceSettings:
    """`gpus`: all of the claim on this node, since a config may name them; `allow`: what the policy lets claims ask
    for, and `memory_wall`: whether the GPU can have any."""

    def asked(kind: type[C]) -> Asked[C]:
        return _allowed(result, _last_matching(result, configs, kind), allow, policy)

    match names.sharing_of_device(result.device):
        case names.Sharing.TIME_SLICING:
            settings = _time_sliced(result, asked(nvidia.GpuConfig), offers, policy)
            return _walled(result, settings, offers, policy, memory_wall)
        case names.Sharing.MPS:
            return _mps(result, asked(nvidia.GpuConfig), offers, policy)
        case names.Sharing.EXCLUSIVE:
            return _whole(result, asked(nvidia.GpuConfig), configs, gpus)
        case names.Sharing.MIG:
            return _mig(result, asked(nvidia.MigDeviceConfig))
        case None:
            raise SettingsError(
                f"{result.device} is not a device of this driver: delete the pod, so that it is scheduled again",
                request=result.request,
            )


def _allowed(
    result: AllocationResult, asked: Asked[C], allow: Allowance | None, policy: PolicyReference | None
) -> Asked[C]:
    """What a class says is the platform's own word."""
    if asked is None or allow is None or policy is None or asked[1] != _SOURCES["FromClaim"]:
        return asked
    if problem := config_limits.objection(asked[0], allow):
        raise SettingsError(
            f"config of the {asked[1]}: {problem} in policy {policy.name}: use an allowed value, or remove the config",
            request=result.request,
        )
    return asked


def _time_sliced(
    result: AllocationResult,
    asked: Asked[nvidia.GpuConfig],
    offers: Offers,
    policy: PolicyReference | None,
) -> DeviceSettings:
    offer = offers.time_slicing
    if offer is None or policy is None:
        raise _no_offer(result)
    ignored: tuple[str, ...] = ()
    wanted = _interval(result, asked) if asked else None
    if asked and wanted not in {None, offer.interval}:
        ignored = (
            (
                f"interval {wanted} of the {asked[1]}: clients of a GPU share one interval, "
                f"and policy {policy.name} sets {offer.interval}"
            ),
        )
    return DeviceSettings(
        request=result.request,
        device=result.device,
        interval=offer.interval,
        sources=SettingSources(interval=f"policy/{policy.name}"),
        ignored=ignored,
    )


def _walled(
    result: AllocationResult,
    settings: DeviceSettings,
    offers: Offers,
    policy: PolicyReference | None,
    support: MemoryWallSupport,
) -> DeviceSettings:
    """With the limit of memory, which is what the scheduler has counted."""
    memory = offers.time_slicing.memory if offers.time_slicing else None
    if memory is None or policy is None or memory.enforcement is Enforcement.NONE:
        return settings
    limit, source = _limit(result, memory, policy)
    if support.supported:
        sources = _sources(settings).model_copy(update={"memory": source})
        wall = MemorySettings(limit=limit, enforcement=memory.enforcement)
        return settings.model_copy(update={"memory": wall, "sources": sources})
    if memory.enforcement is Enforcement.REQUIRED:
        raise SettingsError(
            f"policy {policy.name} requires a memory limit on device {result.device}, which is not supported "
            f"({support.reason}): delete the pod, so that it is scheduled again",
            request=result.request,
        )
    unheld = f"memory {limit}Mi: not enforced on this GPU ({support.reason}); policy {policy.name} permits that"
    return settings.model_copy(update={"ignored": (*settings.ignored, unheld)})


def _limit(result: AllocationResult, memory: TimeSlicingMemory, policy: PolicyReference) -> tuple[int, str]:
    """In mebibytes, and where it comes from. Nothing was counted if the memory was not divided at that time."""
    consumed = _consumed(result, "memory", quantities.whole_mebibytes)
    return (consumed, "allocation") if consumed else (quantities.mebibytes(memory.default), f"policy/{policy.name}")


def _mps(
    result: AllocationResult, asked: Asked[nvidia.GpuConfig], offers: Offers, policy: PolicyReference | None
) -> DeviceSettings:
    """The limits are what the scheduler has counted."""
    offer = offers.mps
    if offer is None or policy is None:
        raise _no_offer(result)
    sharing = asked[0].sharing if asked else None
    if asked and sharing and sharing.strategy != "MPS":
        raise SettingsError(
            f"config of the {asked[1]}: sharing.strategy is {sharing.strategy}, but device "
            f"{result.device} is shared by MPS: use MPS, or remove the config",
            request=result.request,
        )
    ignored: tuple[str, ...] = ()
    if asked and sharing and sharing.mps_config:
        because = "on a shared GPU the limits are the memory and threads that the claim was allocated"
        ignored = (f"mpsConfig of the {asked[1]}: {because}; ask for them by capacity.requests",)
    memory = _consumed(result, "memory", quantities.whole_mebibytes)
    threads = _consumed(result, "threads", quantities.whole)
    # What was allocated before the policy allowed less, holds.
    most = max(quantities.mebibytes(offer.memory.max), memory or 0) if offer.memory.max else None
    return DeviceSettings(
        request=result.request,
        device=result.device,
        mps=MpsSettings(
            memory=memory,
            threads=offer.threads.default if threads is None else threads,
            most_memory=most,
        ),
        sources=SettingSources(mps="allocation"),
        ignored=ignored,
    )


def _consumed(result: AllocationResult, capacity: str, read: Callable[[str], int]) -> int | None:
    """In the words of whoever wrote the claim: the scheduler passes them on."""
    consumed = result.consumed_capacity.get(capacity)
    if consumed is None:
        return None
    try:
        return read(consumed)
    except ValueError as error:
        raise SettingsError(f"capacity {capacity}: {error}", request=result.request) from error


def _mig(result: AllocationResult, asked: Asked[nvidia.MigDeviceConfig]) -> DeviceSettings:
    if asked and asked[0].sharing and asked[0].sharing.strategy == "MPS":
        raise SettingsError(
            f"config of the {asked[1]}: sharing.strategy is MPS, which MIG devices do not "
            "support yet: remove the config, or use an MPS device of a whole GPU",
            request=result.request,
        )
    return DeviceSettings(request=result.request, device=result.device)


def follow(settings: DeviceSettings, offers: Offers, policy: PolicyReference | None) -> DeviceSettings:
    """What a time-sliced device has after its GPU's offer has changed under it. Its memory is the claim's own, of the
    allocation that was prepared."""
    if offers.time_slicing is None or policy is None:
        return settings
    sources = _sources(settings).model_copy(update={"interval": f"policy/{policy.name}"})
    return settings.model_copy(update={"interval": offers.time_slicing.interval, "sources": sources})


def _sources(settings: DeviceSettings) -> SettingSources:
    return settings.sources or SettingSources()


def _whole(
    result: AllocationResult,
    asked: Asked[nvidia.GpuConfig],
    configs: Sequence[AllocationConfig],
    gpus: ClaimedGpus,
) -> DeviceSettings:
    if asked and asked[0].sharing and asked[0].sharing.strategy == "MPS":
        config = asked[0].sharing.mps_config or nvidia.MpsConfig()
        return DeviceSettings(
            request=result.request,
            device=result.device,
            mps=_configured_mps(result, config, asked[1], _of_same_config(result, configs, gpus)),
            sources=SettingSources(mps=asked[1]),
        )
    interval = _interval(result, asked) if asked else None
    if asked and interval is None and asked[0].sharing is not None:
        # The strategy alone: NVIDIA's driver sets the default then, and so do we.
        interval = Interval.DEFAULT
    return DeviceSettings(
        request=result.request,
        device=result.device,
        interval=interval,
        sources=SettingSources(interval=asked[1]) if asked and interval else None,
    )


def _of_same_config(
    result: AllocationResult, configs: Sequence[AllocationConfig], gpus: ClaimedGpus
) -> Mapping[str, AllocationResult]:
    """The whole GPUs that the config of this device is for, by uuid, in the order in which it counts them."""

    def place(device: AllocationResult) -> int | None:
        return _place_of_last(device, configs, nvidia.GpuConfig)

    return {
        uuid: device
        for device, uuid in sorted(gpus, key=lambda gpu: gpu[1])
        if names.sharing_of_device(device.device) is names.Sharing.EXCLUSIVE
        and not device.admin_access
        and place(device) == place(result)
    }


def _configured_mps(
    result: AllocationResult, config: nvidia.MpsConfig, source: str, gpus: Mapping[str, AllocationResult]
) -> MpsSettings:
    """Of a GPU that the claim has to itself: for its own processes, so client and daemon have the same limits."""
    where = f"config of the {source}: sharing.mpsConfig"
    memory = None
    if config.default_pinned_device_memory_limit is not None:
        field = f"{where}.defaultPinnedDeviceMemoryLimit"
        memory = _pinned_memory(config.default_pinned_device_memory_limit, field, result)
    memory = _own_limits(result, config, where, gpus).get((result.pool, result.device), memory)
    threads = config.default_active_thread_percentage or 100
    return MpsSettings(memory=memory, threads=threads, most_memory=memory, most_threads=threads)


def _own_limits(
    result: AllocationResult, config: nvidia.MpsConfig, where: str, gpus: Mapping[str, AllocationResult]
) -> Mapping[tuple[str, str], int]:
    """What single GPUs are given, by pool and device. A uuid counts more than an index."""
    by_index: dict[tuple[str, str], int] = {}
    by_uuid: dict[tuple[str, str], int] = {}
    listed = list(gpus.values())
    for key, amount in (config.default_per_device_pinned_memory_limit or {}).items():
        field = f"{where}.defaultPerDevicePinnedMemoryLimit.{key}"
        limit = _pinned_memory(amount, field, result)
        if device := gpus.get(key):
            by_uuid[device.pool, device.device] = limit
        elif _INDEX.fullmatch(key) and 0 <= int(key) < len(listed):
            device = listed[int(key)]
            by_index[device.pool, device.device] = limit
        else:
            raise SettingsError(
                f"{field} names none of the GPUs that this config is for: use a uuid of {', '.join(gpus)}, or its "
                "index there, which begins at 0",
                request=result.request,
            )
    return by_index | by_uuid


def _pinned_memory(amount: str, field: str, result: AllocationResult) -> int:
    try:
        memory = 0 if amount.startswith("-") else quantities.whole_mebibytes(amount)
    except ValueError as error:
        raise SettingsError(f"{field}: {error}", request=result.request) from error
    if not 0 < memory < _MOST_MEMORY:
        raise SettingsError(
            f"{field} is {amount}: must be at least 1Mi, and less than {_MOST_MEMORY}Mi", request=result.request
        )
    return memory


def _no_offer(result: AllocationResult) -> SettingsError:
    return SettingsError(
        f"device {result.device} is no longer offered: delete the pod and the claim", request=result.request
    )


def _interval(result: AllocationResult, asked: tuple[nvidia.GpuConfig, str]) -> Interval | None:
    config, source = asked
    if config.sharing is None:
        return None
    if config.sharing.strategy == "MPS":
        raise SettingsError(
            f"config of the {source}: sharing.strategy is MPS, but device {result.device} "
            f"is shared by time-slicing: use TimeSlicing, or remove the config",
            request=result.request,
        )
    return config.sharing.time_slicing_config.interval if config.sharing.time_slicing_config else None


def _last_matching(result: AllocationResult, configs: Sequence[AllocationConfig], kind: type[C]) -> Asked[C]:
    """The last config wins whole. One that cannot be read fails the claim even where a later one would win."""
    found: Asked[C] = None
    for config in configs:
        if config.opaque is None or not _covers(config.requests, result.request):
            continue
        source = _SOURCES.get(config.source, config.source)
        try:
            decoded = nvidia.decode(config.opaque.parameters)
        except nvidia.InvalidConfigError as error:
            raise SettingsError(f"config of the {source}: {error}", request=result.request) from error
        if isinstance(decoded, kind):
            found = decoded, source
        elif config.requests:
            is_mig = kind is nvidia.MigDeviceConfig
            raise SettingsError(
                f"config of the {source}: {decoded.kind} names this request, but device "
                f"{result.device} is {'a' if is_mig else 'not a'} MIG device: use {kind.__name__}",
                request=result.request,
            )
    return found


def _place_of_last(result: AllocationResult, configs: Sequence[AllocationConfig], kind: type[C]) -> int | None:
    matching = (
        place
        for place, config in enumerate(configs)
        if config.opaque is not None
        and _covers(config.requests, result.request)
        and isinstance(nvidia.understand(config.opaque.parameters), kind)
    )
    return max(matching, default=None)


def _covers(requests: Sequence[str], request: str) -> bool:
    """Empty means all; a request's name covers its subrequests (`gpu` covers `gpu/big`)."""
    return not requests or request in requests or request.partition("/")[0] in requests
