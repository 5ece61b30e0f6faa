"""A forecast is what a real agent publishes on such a node under the same policies: field by field, but for uuids."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from agent.on_cluster import RESOURCE, GpuNode
from cluster.narrowing.bed import EVERYTHING, Bed
from harness.commands import run
from harness.eventually import eventually
from harness.workloads import policy

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module")]

POLICIES: Final = "/apis/gpusharing.dev/v1alpha1/sharingpolicies"
HOPPER: Final = 'device.attributes["gpu.nvidia.com"].architecture == "Hopper"'
TENANTS: Final = {"namespaces": {"matchLabels": {"team": "search"}}, "allow": {"maxShares": 1, "maxMemory": "20Gi"}}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed(toolchain: Path) -> AsyncIterator[Bed]:
    async with Bed() as bed:
        yield bed


@pytest.mark.parametrize(
    ("gpus", "specs"),
    [
        pytest.param("H100-80GB:2,T4", [], id="as found"),
        pytest.param("L4:2", [{"offers": {"timeSlicing": {"maxClients": 4}}}], id="time-slicing"),
        pytest.param("H100-80GB:2,A100-40GB:2,L4:2", [{"offers": EVERYTHING}], id="every mode"),
        pytest.param(
            "H100-80GB:2", [{"offers": {"exclusive": {}, "mps": EVERYTHING["mps"]}, "tenants": TENANTS}], id="tenants"
        ),
        pytest.param("H100-80GB:2", [{"offers": {"mig": {"layout": {"1g.10gb": 4, "3g.40gb": 1}}}}], id="a layout"),
        pytest.param("A100-40GB:1", [{"offers": {"mig": {"profiles": ["1g.5gb", "3g.20gb"]}}}], id="MIG on Ampere"),
        pytest.param("A100-40GB:1", [{"offers": {"mig": {"layout": {"2g.10gb": 3}}}}], id="a layout on Ampere"),
        pytest.param(
            "H100-80GB:3,L4:2",
            [
                {
                    "priority": 10,
                    "gpus": {"selectors": [{"cel": {"expression": HOPPER}}], "maxPerNode": 1},
                    "offers": {"exclusive": {}},
                    "tenants": TENANTS,
                },
                {"offers": {"timeSlicing": {"maxClients": 2, "transparent": True}}},
                {"nodes": {"matchLabels": {"no": "node"}}, "priority": 99, "offers": {"exclusive": {}}},
            ],
            id="several policies",
        ),
        pytest.param(
            "L4:1",
            [{"offers": {"timeSlicing": {"maxClients": 2, "memory": {"default": "50%"}}, "exclusive": {}}}],
            id="a memory wall that the driver cannot build",
        ),
    ],
)
async def test_it_is_what_an_agent_publishes(bed: Bed, tmp_path: Path, gpus: str, specs: list[dict[str, Any]]) -> None:
    bodies = [policy(f"policy-{number}", **spec) for number, spec in enumerate(specs)]
    for body in bodies:
        await bed.admin.call("POST", POLICIES, body)
    try:
        async with bed.node(gpus=gpus) as node:
            expected = [await as_stored(bed, item) for item in await forecast(tmp_path, gpus, node, bodies)]

            async def check() -> None:
                assert [comparable(item) for item in await node.slices()] == expected

            await eventually(check)
    finally:
        for body in bodies:
            await bed.admin.call("DELETE", f"{POLICIES}/{body['metadata']['name']}")


async def forecast(directory: Path, gpus: str, node: GpuNode, policies: list[dict[str, Any]]) -> list[Any]:
    for number, body in enumerate(policies):
        (directory / f"{number}.json").write_text(json.dumps(body))
    arguments = ["forecast", "--gpus", gpus, "--node", node.name, "-f", str(directory), "-o", "json"]
    items: list[Any] = json.loads(await run([sys.executable, "-m", "gpusharing", *arguments]))["items"]
    return items


async def as_stored(bed: Bed, item: Any) -> Any:
    """As the API server writes it, which takes it: the agent's 40960Mi are 40Gi there."""
    other = item | {"metadata": {"name": f"forecast-{item['metadata']['name']}"}}
    stored = await bed.admin.call("POST", f"{RESOURCE}/resourceslices?dryRun=All", other)
    return comparable(stored | {"metadata": item["metadata"]})


def comparable(item: Any) -> Any:
    """Without what is another on each node, or at each time."""
    spec = json.loads(json.dumps(item["spec"]))
    del spec["pool"]["generation"]
    for device in spec.get("devices", ()):
        for name in ("uuid", "parentUUID"):
            device["attributes"].pop(name, None)
    return item["metadata"]["name"], spec
