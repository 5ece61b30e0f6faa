"""`gpusharing doctor --probe` on a real kubelet: a pod for each mode, one that hangs, and others that fail."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from harness.eventually import eventually
from harness.gpu_cluster import NAMESPACE, GpuCluster
from harness.workloads import SHELL, claim_spec, pod, policy, template
from node.test_explain import ALL_MODES
from node.user import WHOLE, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

MODES = ("exclusive", "timeslicing", "mps", "mig")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(toolchain: Path) -> AsyncIterator[User]:
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:1") as cluster:
        user = User(cluster)
        await user.published("gpu-0")
        await user.apply(ALL_MODES, template("whole", claim_spec(WHOLE)))
        await user.wait("sharingpolicy/all-modes", "--for=condition=Ready")
        yield user


async def probes(user: User, *arguments: str, image: str = SHELL) -> dict[str, dict[str, Any]]:
    """By the names of their checks."""
    command = [sys.executable, "-m", "gpusharing", "doctor", "--probe", "-o", "json", *arguments]
    command += ["--image", image] if image else []
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--kubeconfig", str(user.cluster.kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(os.environ),
    )
    out, err = await process.communicate()
    assert out, err.decode()
    checks = json.loads(out)["checks"]
    return {check["name"]: check for check in checks if check["section"] == "Probes"}


async def left_behind(user: User) -> list[Any]:
    found = [await user.get(kind, "--selector=gpusharing.dev/probe") for kind in ("pods", "resourceclaims")]
    return [one for listed in found for one in listed["items"]]


def codes(check: dict[str, Any]) -> list[str]:
    return [one["code"] for one in check["findings"]]


async def test_each_mode(user: User) -> None:
    found = await probes(user)
    assert {name: codes(check) for name, check in found.items()} == {f"probe-{mode}": [] for mode in MODES}
    assert "A pod got a GPU of node node-1 in mode MPS and ended well after" in found["probe-mps"]["message"]
    assert await left_behind(user) == []
    await user.nothing_prepared()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def whole_only(user: User) -> User:
    """One mode is enough to see what may go wrong."""
    await user.apply(policy("all-modes", offers={"exclusive": {}}))

    async def others_are_closing() -> None:
        (gpu,) = (await user.get("nodesharing", "node-1"))["status"]["gpus"]
        assert [one["device"] for one in gpu["published"] if "closingSince" not in one] == ["gpu-0"]

    await eventually(others_are_closing)
    return user


async def test_a_program_that_is_not_there(whole_only: User) -> None:
    """Without --image, the pods have the image of the agents, and its program."""
    user = whole_only
    agents = f"daemonset/gpusharing-agent --namespace={NAMESPACE}".split()
    await user.cluster.kubectl("set", "image", *agents, f"agent={SHELL}")
    found = await probes(user, image="")
    assert {name: codes(check) for name, check in found.items()} == {"probe-exclusive": ["GSH0940"]}
    assert "exit code 128 (StartError)" in found["probe-exclusive"]["findings"][0]["message"]


async def test_a_gpu_in_use(whole_only: User) -> None:
    user = whole_only
    await user.apply(pod("holder", template="whole"))
    await user.running(1)
    found = await probes(user, "--timeout", "8s")
    # The third one is about the DaemonSet, which has no pods here.
    assert {name: codes(check)[:2] for name, check in found.items()} == {"probe-exclusive": ["GSH0941", "GSH0205"]}
    assert "pod default/holder" in found["probe-exclusive"]["findings"][1]["message"]
    await user.delete("pods", "holder", "--now")
    await user.nothing_prepared()


async def test_a_probe_hangs_where_the_agent_is_away(whole_only: User) -> None:
    """The scheduler still sees the devices, the kubelet cannot prepare them, and explain says so. The kubelet can end
    the pods only when the agent is back."""
    user = whole_only
    await user.cluster.agent.kill()
    try:
        found = await probes(user, "--timeout", "8s")
    finally:
        await user.cluster.agent.start()
    hung = codes(found["probe-exclusive"])
    assert hung[0] == "GSH0939"
    assert "GSH0302" in hung, found

    async def nothing_is_left() -> None:
        assert await left_behind(user) == []

    await eventually(nothing_is_left)
    await user.nothing_prepared()
