"""What Kubernetes itself says of our pools (ResourcePoolStatusRequest, alpha): it finds no fault with any of them."""

import json
from typing import Any, Final

import pytest

from building.boards import ALL
from cluster.test_slices import DRIVER, cut_for_good, everything
from core.publishing.test_menu import MODES, offered
from gpusharing.core.publishing.devices import full_menu
from gpusharing.core.publishing.slice_updates import slice_name
from gpusharing.core.publishing.slices import PublishedGpu, slice_specs
from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

SERVES_STATUS: Final = {"DRAResourcePoolStatus": True}
FEW: Final = 4
"""Pools of each model: one request looks at a thousand, and kubectl writes each slice by itself."""


def pools() -> dict[str, list[dict[str, Any]]]:
    """Each of a node of its own, by name."""
    found: dict[str, list[PublishedGpu]] = {}
    for model in ALL:
        kinds = [*everything(model)]
        each = kinds[:: max(1, len(kinds) // FEW)] + [*cut_for_good(model)][:1]
        found |= {f"{model.lower()}-{number}": [gpu] for number, gpu in enumerate(each)}
        many = [offered(model, MODES, slot) for slot in range(8)]
        found[f"{model.lower()}-node"] = [PublishedGpu(gpu, full_menu(gpu)) for gpu in many]
    return {name: slice_specs(gpus, node=name, pool=name, driver=DRIVER, generation=1) for name, gpus in found.items()}


async def test_it_finds_no_fault(toolchain: object) -> None:
    published = pools()
    slices = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": slice_name(index, pool=name, driver=DRIVER)},
            "spec": spec,
        }
        for name, specs in published.items()
        for index, spec in enumerate(specs)
    ]
    asked = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourcePoolStatusRequest",
        "metadata": {"name": "all"},
        "spec": {"driver": DRIVER, "limit": 1000},
    }
    async with ControlPlane(feature_gates=SERVES_STATUS, runtime_config="resource.k8s.io/v1alpha3=true") as server:
        body = json.dumps({"apiVersion": "v1", "kind": "List", "items": slices})
        await server.kubectl("create", "--filename=-", stdin=body)
        await server.kubectl("create", "--filename=-", stdin=json.dumps(asked))
        await server.kubectl("wait", "resourcepoolstatusrequest/all", "--for=condition=Complete", "--timeout=60s")
        told = json.loads(await server.kubectl("get", "resourcepoolstatusrequest", "all", "--output=json"))["status"]
    by_pool = {pool["poolName"]: pool for pool in told["pools"]}
    assert [(name, pool["validationError"]) for name, pool in by_pool.items() if "validationError" in pool] == []
    assert {name: pool["totalDevices"] for name, pool in by_pool.items()} == {
        name: sum(len(spec.get("devices", ())) for spec in specs) for name, specs in published.items()
    }
