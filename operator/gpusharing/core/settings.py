"""What a claim's devices are set to: the last matching config of the claim or its class, filled in by the policy."""

from collections.abc import Sequence
from typing import Final

from gpusharing.api import names, nvidia
from gpusharing.api.dra import AllocationConfig, AllocationResult
from gpusharing.api.sharing import DeviceSettings, Interval, Offers, PolicyReference, SettingSources

_SOURCES: Final = {"FromClaim": "claim", "FromClass": "class"}


class SettingsError(ValueError):
    """The claim asks for something that this device cannot be. The message names the request, the field, the remedy."""


def resolve(
    result: AllocationResult, configs: Sequence[AllocationConfig], offers: Offers, policy: PolicyReference | None
) -> DeviceSettings:
    asked = _last_matching(result, configs)
    match names.sharing_of_device(result.device):
        case names.Sharing.TIME_SLICING:
            return _time_sliced(result, asked, offers, policy)
        case names.Sharing.EXCLUSIVE:
            return _whole(result, asked)
        case None:
            raise SettingsError(
                f"request {result.request}: this driver has no device of the name {result.device}: delete the pod, so "
                "that it is scheduled again"
            )


def _time_sliced(
    result: AllocationResult,
    asked: tuple[nvidia.GpuConfig, str] | None,
    offers: Offers,
    policy: PolicyReference | None,
) -> DeviceSettings:
    offer = offers.time_slicing
    if offer is None or policy is None:
        raise SettingsError(
            f"request {result.request}: device {result.device} is not offered any more: delete the pod and the claim"
        )
    ignored: tuple[str, ...] = ()
    wanted = _interval(result, asked) if asked else None
    if asked and wanted not in {None, offer.interval}:
        ignored = (
            (
                f"interval {wanted} of the {asked[1]}: the interval of a shared GPU belongs to the GPU, "
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


def follow(settings: DeviceSettings, offers: Offers, policy: PolicyReference | None) -> DeviceSettings:
    """What a time-sliced device has after its GPU's offer has changed under it."""
    if offers.time_slicing is None or policy is None:
        return settings
    source = SettingSources(interval=f"policy/{policy.name}")
    return settings.model_copy(update={"interval": offers.time_slicing.interval, "sources": source})


def _whole(result: AllocationResult, asked: tuple[nvidia.GpuConfig, str] | None) -> DeviceSettings:
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


def _interval(result: AllocationResult, asked: tuple[nvidia.GpuConfig, str]) -> Interval | None:
    config, source = asked
    if config.sharing is None:
        return None
    if config.sharing.strategy == "MPS":
        raise SettingsError(
            f"request {result.request}: config of the {source}: sharing.strategy is MPS, which device {result.device} "
            f"is not offered with: use TimeSlicing, or remove the config"
        )
    return config.sharing.time_slicing_config.interval if config.sharing.time_slicing_config else None


def _last_matching(
    result: AllocationResult, configs: Sequence[AllocationConfig]
) -> tuple[nvidia.GpuConfig, str] | None:
    """The last config wins whole. One that cannot be read fails the claim even where a later one would win."""
    found: tuple[nvidia.GpuConfig, str] | None = None
    for config in configs:
        if config.opaque is None or not _covers(config.requests, result.request):
            continue
        source = _SOURCES.get(config.source, config.source)
        try:
            decoded = nvidia.decode(config.opaque.parameters)
        except nvidia.InvalidConfigError as error:
            raise SettingsError(f"request {result.request}: config of the {source}: {error}") from error
        if isinstance(decoded, nvidia.GpuConfig):
            found = decoded, source
        elif config.requests:
            raise SettingsError(
                f"request {result.request}: config of the {source}: MigDeviceConfig names this request, but device "
                f"{result.device} is not a MIG device: use GpuConfig"
            )
    return found


def _covers(requests: Sequence[str], request: str) -> bool:
    """Empty means all; a request's name covers its subrequests (`gpu` covers `gpu/big`)."""
    return not requests or request in requests or request.partition("/")[0] in requests
