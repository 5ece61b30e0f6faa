"""`gpusharing agent cleanup`, run as a user runs it before the agent is uninstalled."""

import subprocess
from pathlib import Path

import pytest

from agent.on_cluster import GpuNode, opaque
from building import interval_config
from gpusharing.agent.state.files import QUARANTINED
from gpusharing.sim import ComputeMode, Timeslice
from harness.controlplane import ControlPlane

pytestmark = pytest.mark.cluster

DONE = "The GPUs are as they were found, and nothing of the agent is left on this node.\n"
LAYOUT = {"mig": {"layout": {"3g.40gb": 1}}}
MPS = {"mps": {"maxClients": 4, "memory": {"default": "8192Mi", "max": "16384Mi"}, "threads": {"default": 25}}}


def clean_up(node: GpuNode) -> tuple[int, str, str]:
    start, *arguments = (str(word) for word in node.arguments())
    position = arguments.index("agent") + 1
    words = [start, *arguments[:position], "cleanup", *arguments[position:]]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return result.returncode, result.stdout, result.stderr


def left_on(node: GpuNode) -> list[Path]:
    # Directories that are mounts of the agent's container stay.
    ours = [*node.state.iterdir(), *node.cdi.iterdir(), *node.mps.iterdir(), node.endpoint, node.registration]
    return [path for path in ours if path.exists()]


async def test_everything_is_put_back_and_nothing_stays(installed: ControlPlane) -> None:
    async with GpuNode(installed, gpus="H100-80GB:2,A100-40GB:1") as node:
        for gpu in node.sim.gpus():
            node.sim.set_timeslice(gpu.uuid, Timeslice.SHORT)
            node.sim.set_compute_mode(gpu.uuid, ComputeMode.PROHIBITED)
        before = node.sim.gpus()
        await node.decide(LAYOUT, MPS, {"mig": {"profiles": ["3g.20gb"]}})
        await node.offers("gpu-0-mig-3g40gb-9-4", "gpu-1-mps", "gpu-2-mig-3g20gb-9-0", "gpu-2-mig-3g20gb-9-4")
        share = node.shared(1, device="gpu-1-mps", consumedCapacity={"shares": "1", "memory": "8Gi", "threads": "25"})
        claim = await node.claim(share)
        assert not (await node.kubelet.prepare(claim))[claim.uid].error

        code, _, error = clean_up(node)
        assert code == 1
        assert "another agent holds" in error
        await node.agent.kill()
        during = node.sim.gpus()
        code, _, error = clean_up(node)
        assert (code, error) == (
            1,
            f"not cleaned up: claim default/{claim.name} is prepared: delete the pods that use it\n",
        )
        # What nobody holds has been put back; who is there was not disturbed.
        assert [gpu.uuid for gpu in node.sim.gpus() if gpu != before[gpu.index]] == [during[1].uuid]
        assert node.sim.gpus()[1] == during[1]

        await node.agent.start()
        assert await node.kubelet.unprepare(claim) == {claim.uid: ""}
        await node.agent.kill()
        for _ in range(2):
            assert clean_up(node) == (0, DONE, "")
            assert node.sim.gpus() == before
            assert left_on(node) == []


async def test_what_cannot_be_put_back_is_named_and_not_forgotten(installed: ControlPlane) -> None:
    async with GpuNode(installed, gpus="H100-80GB") as node:
        before = node.sim.gpus()
        claim = await node.claim(node.whole(), config=[opaque(interval_config("Long"))])
        assert not (await node.kubelet.prepare(claim))[claim.uid].error
        node.sim.nvidia_smi.rename(node.sim.nvidia_smi.with_name("away"))
        assert await node.kubelet.unprepare(claim) == {claim.uid: ""}
        await node.agent.kill()
        uuid = before[0].uuid
        broken = node.state / "claims" / f"some-claim.json{QUARANTINED}"
        broken.touch()
        code, output, error = clean_up(node)
        assert (code, output) == (1, "")
        first, second = error.splitlines()
        assert first.startswith(f"not cleaned up: {broken} is damaged")
        assert "nvidia-smi" in second
        node.sim.nvidia_smi.with_name("away").rename(node.sim.nvidia_smi)
        broken.unlink()
        assert clean_up(node) == (0, DONE, "")
        assert node.sim.gpus() == before, uuid
