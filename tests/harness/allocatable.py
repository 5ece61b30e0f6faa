"""Whether the scheduler can allocate the GPUs of a node: from its ResourceSlices."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from gpusharing.api import names


def missing_devices(slices: Iterable[Any], node: str, gpus: int) -> str:
    """What keeps pods from getting each of so many GPUs; nothing if nothing does."""
    pools = defaultdict(list)
    for one in slices:
        spec = one["spec"]
        if (spec["driver"], spec.get("nodeName")) == (names.DRIVER, node):
            pools[spec["pool"]["name"]].append(spec)
    free = set()
    for name, specs in pools.items():
        generation = max(spec["pool"]["generation"] for spec in specs)
        newest = [spec for spec in specs if spec["pool"]["generation"] == generation]
        expected = newest[0]["pool"]["resourceSliceCount"]
        if len(newest) < expected:
            return f"pool {name} has {len(newest)} of {expected} slices"
        free |= {names.slot_of_device(device["name"]) for spec in newest for device in _configured(spec)}
    return "" if len(free) >= gpus else f"node {node} offers {len(free)} of {gpus} GPUs"


def _configured(spec: Any) -> list[Any]:
    """The devices on which the operator has decided."""
    devices = spec.get("devices") or []
    return [
        device
        for device in devices
        if names.UNCONFIGURED_TAINT not in {taint["key"] for taint in device.get("taints") or ()}
    ]
