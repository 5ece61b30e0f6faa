"""Pods can get a GPU when its slices are complete and the operator has decided on it."""

from typing import Any

import pytest

from harness.allocatable import missing_devices

UNCONFIGURED = [{"key": "gpusharing.dev/unconfigured", "effect": "NoSchedule"}]


def slice_(
    *devices: str, count: int = 1, generation: int = 1, node: str = "node-1", pool: str = "node-1", **other: Any
) -> Any:
    return {
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": node,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": [{"name": device, **other} for device in devices],
        }
    }


@pytest.mark.parametrize(
    ("slices", "missing"),
    [
        ([], "node node-1 offers 0 of 2 GPUs"),
        ([slice_("gpu-0", "gpu-1")], ""),
        ([slice_("gpu-0", "gpu-0-mps", "gpu-0-timeslicing")], "node node-1 offers 1 of 2 GPUs"),
        ([slice_("gpu-0"), slice_("gpu-1", pool="node-1/tenants")], ""),
        ([slice_("gpu-0"), slice_("gpu-1", node="node-2", pool="node-2")], "node node-1 offers 1 of 2 GPUs"),
        ([slice_("gpu-0", "gpu-1", count=2)], "pool node-1 has 1 of 2 slices"),
        ([slice_("gpu-0", count=2), slice_("gpu-1", count=2)], ""),
        ([slice_("gpu-0"), slice_("gpu-1", generation=2, count=2)], "pool node-1 has 1 of 2 slices"),
        ([slice_("gpu-0", "gpu-1", taints=UNCONFIGURED)], "node node-1 offers 0 of 2 GPUs"),
        ([slice_("gpu-0", "gpu-1", taints=[{"key": "other"}])], ""),
    ],
)
def test_what_is_missing(slices: list[Any], missing: str) -> None:
    assert missing_devices(slices, "node-1", 2) == missing
