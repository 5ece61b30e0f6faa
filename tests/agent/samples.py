"""Claims as the agent keeps them."""

from typing import Any

from gpusharing.agent.state.models import PreparedClaim, PreparedDevice
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.api.sharing.offers import Interval


def prepared_device(
    device: str = "gpu-0-timeslicing",
    *,
    uuid: str = "GPU-n1-0",
    request: str = "gpu",
    admin: bool = False,
    interval: Interval | None = None,
    **changes: Any,
) -> PreparedDevice:
    return PreparedDevice(
        request=request,
        pool="n1",
        device=device,
        uuid=uuid,
        admin=admin,
        settings=DeviceSettings(request=request, device=device, interval=interval),
        cdi_devices=(f"nvidia.com/gpu={uuid}",),
        **changes,
    )


def prepared_claim(name: str, *devices: PreparedDevice, admin: bool = False) -> PreparedClaim:
    return PreparedClaim(
        uid=f"uid-{name}",
        namespace="default",
        name=name,
        allocation_hash="0123456789abcdef",
        devices=devices or (prepared_device(admin=admin),),
    )
