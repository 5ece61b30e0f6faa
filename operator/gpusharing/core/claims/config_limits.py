"""What a policy lets claims ask for in configs of their own."""

from collections.abc import Sequence
from enum import StrEnum

from gpusharing.api.nvidia import GpuConfig, MigDeviceConfig, MpsConfig
from gpusharing.api.sharing.offers import Interval
from gpusharing.api.sharing.tenants import Allowance
from gpusharing.core import quantities


def objection(config: GpuConfig | MigDeviceConfig, allow: Allowance) -> str | None:
    """Which field asks for what is not allowed, and what is. None: all of it is allowed."""
    sharing = config.sharing
    if sharing is None:
        return None
    if allow.gpu_config is not None and sharing.strategy not in allow.gpu_config:
        return _not_among("sharing.strategy", sharing.strategy, allow.gpu_config, "gpuConfig")
    interval = _interval(config)
    if allow.intervals is not None and interval is not None and interval not in allow.intervals:
        return _not_among("sharing.timeSlicingConfig.interval", interval, allow.intervals, "intervals")
    return _too_much(sharing.mps_config, allow) if sharing.mps_config else None


def _interval(config: GpuConfig | MigDeviceConfig) -> Interval | None:
    """What it says, not what it comes to."""
    asked = config.sharing.time_slicing_config if isinstance(config, GpuConfig) and config.sharing else None
    return asked.interval if asked and "interval" in asked.model_fields_set else None


def _too_much(config: MpsConfig, allow: Allowance) -> str | None:
    threads = config.default_active_thread_percentage
    if allow.max_threads is not None and threads is not None and threads > allow.max_threads:
        return _over("defaultActiveThreadPercentage", threads, allow.max_threads, "maxThreads")
    if allow.max_memory is None:
        return None
    asked = {
        f"defaultPerDevicePinnedMemoryLimit.{device}": memory
        for device, memory in (config.default_per_device_pinned_memory_limit or {}).items()
    }
    if config.default_pinned_device_memory_limit is not None:
        asked["defaultPinnedDeviceMemoryLimit"] = config.default_pinned_device_memory_limit
    for field, memory in asked.items():
        if _is_more(memory, allow.max_memory):
            return _over(field, memory, allow.max_memory, "maxMemory")
    return None


def _is_more(asked: str, allowed: str) -> bool:
    try:
        return quantities.whole_mebibytes(asked) > quantities.mebibytes(allowed)
    except ValueError:
        # What is no amount is refused as such.
        return False


def _not_among(field: str, asked: str, allowed: Sequence[StrEnum], name: str) -> str:
    told = ", ".join(allowed) or "none"
    return f"{field} is {asked}, but tenants.allow.{name} is {told}"


def _over(field: str, asked: object, allowed: object, name: str) -> str:
    return f"sharing.mpsConfig.{field} is {asked}, but tenants.allow.{name} is {allowed}"
