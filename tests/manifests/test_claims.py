"""Claims of docs/cookbook.md in front of the real scheduler: each gets devices in the mode that is expected."""

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gpusharing.api import names
from harness.commands import run
from harness.controlplane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="package")]

EXAMPLES: Final = Path(__file__).parents[2] / "docs/examples"
(TEST,) = yaml.safe_load_all((EXAMPLES / "tests/claims.yaml").read_text())
NODE: Final = "cookbook"
ROOM: Final = {"cpu": "99", "memory": "99Gi", "pods": "99"}


# What a claim for all GPUs gets beside others depends on what agents withdraw, and none runs here.
EXPECTED: Final = [pod for pod in TEST["pods"] if "mode" in pod["expect"]]


async def test_each_claim_gets_devices_in_its_mode(installed: ControlPlane) -> None:
    await published(installed, TEST["nodes"][0]["gpus"])
    mode_of_pod: dict[str, str] = {}
    for expected in EXPECTED:
        objects = list(yaml.safe_load_all((EXAMPLES / "tests" / expected["manifest"]).read_text()))
        await create(installed, *objects)
        pods = [one["metadata"]["name"] for one in objects if one["kind"] == "Pod"]
        mode_of_pod |= dict.fromkeys(pods, expected["expect"]["mode"])
    pods_of_all = [f"pod/{name}" for name in mode_of_pod]
    await installed.kubectl("wait", *pods_of_all, "--for=condition=PodScheduled", "--timeout=60s")

    claims = (await installed.get("resourceclaims"))["items"]
    results = {claim["metadata"]["name"]: claim["status"]["allocation"]["devices"]["results"] for claim in claims}
    found = {
        user["name"]: {names.sharing_of_device(one["device"]) for one in results[claim["metadata"]["name"]]}
        for claim in claims
        for user in claim["status"]["reservedFor"]
    }
    assert found == {name: {mode} for name, mode in mode_of_pod.items()}
    inference, batch = results["inference-and-batch"]
    assert inference["device"] == batch["device"]
    assert (inference["consumedCapacity"]["memory"], batch["consumedCapacity"]["memory"]) == ("32Gi", "16Gi")
    await installed.kubectl("delete", "pods,resourceclaims,resourceclaimtemplates", "--all", "--wait=false")
    await installed.kubectl("delete", "nodes,resourceslices", "--all", "--wait=false")


async def published(installed: ControlPlane, gpus: str) -> None:
    """A node on which every idle GPU publishes all modes: no agent is here to do so when one is taken."""
    policy = EXAMPLES / "all-modes.yaml"
    forecast = [sys.executable, "-m", "gpusharing", "forecast", "--gpus", gpus, "--node", NODE, "--full-menus", "99"]
    slices = json.loads(await run([*forecast, "-f", policy, "-o", "json"]))
    status = {"allocatable": ROOM, "capacity": ROOM, "conditions": [{"type": "Ready", "status": "True"}]}
    await create(installed, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": status})
    # The API server puts it on every new node.
    await installed.kubectl("taint", "node", NODE, "node.kubernetes.io/not-ready-")
    await create(installed, *slices["items"])


async def create(installed: ControlPlane, *objects: Any) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": objects}
    await installed.kubectl("create", "--filename=-", stdin=json.dumps(listed))
