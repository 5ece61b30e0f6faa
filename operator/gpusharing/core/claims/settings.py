"""What a claim's devices are set to: the last matching config of the claim or its class, filled in by the policy."""

from collections.abc import Callable, Sequence
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

_SOURCES: Final = {"FromClaim": "claim", "FromClass": "class"}


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
    allow: Allowance | None = None,
    memory_wall: MemoryWallSupport = NOT_REPORTED,
) -> DeviceSettings:
    """`allow`: what the policy lets claims ask for, and `memory_wall`: whether the GPU can have any."""

    def asked(kind: type[C]) -> Asked[C]:
        return _allowed(result, _last_matching(result, configs, kind), allow, policy)

    match names.sharing_of_device(result.device):
        case names.Sharing.TIME_SLICING:
            settings = _time_sliced(result, asked(nvidia.GpuConfig), offers, policy)
            return _walled(result, settings, offers, policy, memory_wall)
        case names.Sharing.MPS:
            return _mps(result, asked(nvidia.GpuConfig), offers, policy)
        case names.Sharing.EXCLUSIVE:
            return _whole(result, asked(nvidia.GpuConfig))
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


def _whole(result: AllocationResult, asked: Asked[nvidia.GpuConfig]) -> DeviceSettings:
    if asked and asked[0].sharing and asked[0].sharing.strategy == "MPS":
        return DeviceSettings(
            request=result.request,
            device=result.device,
            mps=_configured_mps(result, asked[0].sharing.mps_config or nvidia.MpsConfig(), asked[1]),
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


def _configured_mps(result: AllocationResult, config: nvidia.MpsConfig, source: str) -> MpsSettings:
    """Of a GPU that the claim has to itself: for its own processes, so client and daemon have the same limits."""
    where = f"config of the {source}: sharing.mpsConfig"
    if config.default_per_device_pinned_memory_limit:
        raise SettingsError(
            f"{where}.defaultPerDevicePinnedMemoryLimit is not supported: use defaultPinnedDeviceMemoryLimit",
            request=result.request,
        )
    memory = None
    if config.default_pinned_device_memory_limit is not None:
        text = str(config.default_pinned_device_memory_limit)
        try:
            memory = quantities.whole_mebibytes(text)
        except ValueError as error:
            raise SettingsError(f"{where}.defaultPinnedDeviceMemoryLimit: {error}", request=result.request) from error
        if memory == 0:
            raise SettingsError(
                f"{where}.defaultPinnedDeviceMemoryLimit is {text}: must be at least 1Mi", request=result.request
            )
    threads = config.default_active_thread_percentage or 100
    return MpsSettings(memory=memory, threads=threads, most_memory=memory, most_threads=threads)


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


def _covers(requests: Sequence[str], request: str) -> bool:
    """Empty means all; a request's name covers its subrequests (`gpu` covers `gpu/big`)."""
    return not requests or request in requests or request.partition("/")[0] in requests
