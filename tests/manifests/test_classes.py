"""What the classes of manifests/base let a claim have, asked of the real scheduler."""

import asyncio
import json
from typing import Any

import pytest

from harness.controlplane import ControlPlane

pytestmark = pytest.mark.cluster


def attributes(**values: Any) -> dict[str, Any]:
    """Of our domain where it is ours, otherwise of the driver's own."""
    ours = {"sharing", "closing", "restricted"}
    return {
        f"gpusharing.dev/{name}" if name in ours else name: {"bool" if isinstance(value, bool) else "string": value}
        for name, value in values.items()
    }


DEVICES = {
    # Nothing is known of it: a selector that reads what is not there would stop every pod.
    "bare": {},
    "whole": attributes(type="gpu", sharing="Exclusive"),
    "of-nvidias-driver": attributes(type="gpu"),
    "not-closing": attributes(type="gpu", closing=False, restricted=False),
    "whole-closing": attributes(type="gpu", closing=True),
    "whole-restricted": attributes(type="gpu", restricted=True),
    "mig": attributes(type="mig", sharing="MIG"),
    "mig-closing": attributes(type="mig", sharing="MIG", closing=True),
    "time-sliced": attributes(type="shared", sharing="TimeSlicing"),
    "time-sliced-closing": attributes(type="shared", sharing="TimeSlicing", closing=True),
    "time-sliced-restricted": attributes(type="shared", sharing="TimeSlicing", restricted=True),
    "mps": attributes(type="shared", sharing="MPS"),
    "mps-restricted": attributes(type="shared", sharing="MPS", restricted=True),
    "of-another-kind": attributes(type=True, sharing=True, closing="yes"),
}


@pytest.mark.parametrize(
    ("device_class", "expected"),
    [
        ("gpu.nvidia.com", {"whole", "of-nvidias-driver", "not-closing"}),
        ("mig.nvidia.com", {"mig"}),
        ("timeslicing.gpu.nvidia.com", {"time-sliced"}),
        ("mps.gpu.nvidia.com", {"mps"}),
    ],
)
async def test_a_class_has_its_devices_and_no_others(
    installed: ControlPlane, device_class: str, expected: set[str]
) -> None:
    name = device_class.replace(".", "-")
    await installed.kubectl("create", "--filename=-", stdin=_world(name, device_class))
    try:
        await installed.kubectl("wait", "--for=jsonpath={.status.allocation}", f"resourceclaim/{name}", "--timeout=30s")
        claim = json.loads(await installed.kubectl("get", "resourceclaim", name, "--output=json"))
        assert {result["device"] for result in claim["status"]["allocation"]["devices"]["results"]} == expected
    finally:
        await asyncio.gather(
            installed.kubectl("delete", "pod", name, "--grace-period=0", "--force"),
            installed.kubectl("delete", "resourceslices", "--all"),
            installed.kubectl("delete", "node", name),
        )


async def test_a_pod_that_names_nvidias_resource_gets_a_whole_gpu(installed: ControlPlane) -> None:
    name = "as-before"
    world = json.loads(_world(name, "gpu.nvidia.com"))
    node, published, pod = (item for item in world["items"] if item["kind"] != "ResourceClaim")
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    del pod["spec"]["resourceClaims"]
    world["items"] = [node, published, pod]
    await installed.kubectl("create", "--filename=-", stdin=json.dumps(world))
    try:
        await installed.kubectl("wait", "--for=condition=PodScheduled", f"pod/{name}", "--timeout=30s")
        path = "jsonpath={.status.extendedResourceClaimStatus.resourceClaimName}"
        made = await installed.kubectl("get", "pod", name, f"--output={path}")
        claim = json.loads(await installed.kubectl("get", "resourceclaim", made, "--output=json"))
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert result["device"] in {"whole", "of-nvidias-driver", "not-closing"}
    finally:
        await asyncio.gather(
            installed.kubectl("delete", "pod", name, "--grace-period=0", "--force"),
            installed.kubectl("delete", "resourceslices", "--all"),
            installed.kubectl("delete", "node", name),
        )


def _world(name: str, device_class: str) -> str:
    devices = [{"name": device, "attributes": values} for device, values in DEVICES.items()]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    request = {"name": "all", "exactly": {"deviceClassName": device_class, "allocationMode": "All"}}
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"allocatable": {"pods": "9"}, "capacity": {"pods": "9"}},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": name},
            "spec": {"driver": "gpu.nvidia.com", "nodeName": name, "pool": pool, "devices": devices},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [request]}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "containers": [{"name": "c", "image": "none", "resources": {"claims": [{"name": "gpus"}]}}],
                "resourceClaims": [{"name": "gpus", "resourceClaimName": name}],
                "tolerations": [{"operator": "Exists"}],
            },
        },
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
