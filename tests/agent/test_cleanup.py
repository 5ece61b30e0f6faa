"""`gpusharing agent cleanup`, run as a user runs it before the agent is uninstalled."""

import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.on_cluster import GpuNode, opaque
from building import interval_config
from gpusharing.agent.state.files import QUARANTINED
from gpusharing.sim import ComputeMode, Gpu, Timeslice
from harness.controlplane import ControlPlane
from harness.eventually import eventually
from harness.processes import Process
from harness.readiness import accepts

pytestmark = pytest.mark.cluster

DONE = "The GPUs are as they were found, and nothing of the agent is left on this node.\n"
LAYOUT = {"mig": {"layout": {"3g.40gb": 1}}}
MPS = {"mps": {"maxClients": 4, "memory": {"default": "8192Mi", "max": "16384Mi"}, "threads": {"default": 25}}}


def command(node: GpuNode) -> list[str]:
    start, *arguments = (str(word) for word in node.arguments())
    position = arguments.index("agent") + 1
    return [start, *arguments[:position], "cleanup", *arguments[position:]]


def clean_up(node: GpuNode) -> tuple[int, str, str]:
    result = subprocess.run(command(node), capture_output=True, text=True, timeout=60, check=False)
    return result.returncode, result.stdout, result.stderr


@asynccontextmanager
async def cleaning_up(node: GpuNode, name: str) -> AsyncIterator[Process]:
    """While claims are prepared."""
    process = Process(command(node), log=node.directory / f"{name}.log", ready=lambda: accepts(node.registration))
    try:
        async with process:
            yield process
    finally:
        await process.kill()


async def says(process: Process, *lines: str) -> None:
    async def has_said() -> None:
        assert set(lines) <= set(process.log.read_text().splitlines())

    await eventually(has_said)


async def reports(node: GpuNode, reason: str, *, claims: int, message: str = "") -> None:
    async def is_reported() -> None:
        status = (await node.sharing())["status"]
        [ready] = [one for one in status["conditions"] if one["type"] == "Ready"]
        assert (ready["status"], ready["reason"]) == ("False", reason)
        assert message in ready["message"]
        assert len(status["claims"]) == claims

    await eventually(is_reported)


async def ends(process: Process) -> None:
    async def has_ended() -> None:
        assert not process.running

    await eventually(has_ended)


def left_on(node: GpuNode) -> list[Path]:
    # Directories that are mounts of the agent's container stay.
    ours = [*node.state.iterdir(), *node.cdi.iterdir(), *node.mps.iterdir(), node.endpoint, node.registration]
    return [path for path in ours if path.exists()]


def only_changed_is(node: GpuNode, before: Sequence[Gpu], held: Gpu) -> Callable[[], Awaitable[None]]:
    async def check() -> None:
        assert [gpu for gpu in node.sim.gpus() if gpu != before[gpu.index]] == [held]

    return check


async def test_everything_is_put_back_and_nothing_stays(installed: ControlPlane) -> None:
    async with GpuNode(installed, gpus="H100-80GB:2,A100-40GB:1") as node:
        for gpu in node.sim.gpus():
            node.sim.set_timeslice(gpu.uuid, Timeslice.SHORT)
            node.sim.set_compute_mode(gpu.uuid, ComputeMode.PROHIBITED)
        before = node.sim.gpus()
        await node.decide(LAYOUT, MPS, {"mig": {"profiles": ["3g.20gb"]}})
        await node.offers("gpu-0-mig-3g40gb-9-4", "gpu-1-mps", "gpu-2-mig-3g20gb-9-0", "gpu-2-mig-3g20gb-9-4")
        claims = []
        for _ in range(2):
            consumed = {"shares": "1", "memory": "8Gi", "threads": "25"}
            claims.append(await node.claim(node.shared(1, device="gpu-1-mps", consumedCapacity=consumed)))
            assert not (await node.kubelet.prepare(claims[-1]))[claims[-1].uid].error

        code, _, error = clean_up(node)
        assert code == 1
        assert "another agent holds" in error
        await node.agent.kill()
        during = node.sim.gpus()
        uses = f"uses GPU {during[1].uuid}: delete the pods that use it"
        in_use = [f"not cleaned up yet: claim default/{claim.name} {uses}" for claim in claims]
        async with cleaning_up(node, "stopped") as process:
            await says(process, *in_use)
            await process.stop()
            assert "not cleaned up: stopped before all claims were released" in process.last_lines()
        assert not node.endpoint.exists()
        assert not node.registration.exists()
        async with cleaning_up(node, "completed") as process:
            await says(process, *in_use)
            await reports(node, "CleaningUp", claims=2, message=f"claim default/{claims[0].name} {uses}")
            # What nobody holds is put back; who is there is not disturbed.
            await eventually(only_changed_is(node, before, during[1]))
            another = await node.claim(node.whole(0))
            assert "is being uninstalled" in (await node.kubelet.prepare(another))[another.uid].error
            # The kubelet lets no pod end before this.
            assert await node.kubelet.unprepare(*claims) == {claim.uid: "" for claim in claims}
            await ends(process)
            assert DONE in process.log.read_text()
        await reports(node, "CleanedUp", claims=0)
        assert node.sim.gpus() == before
        assert left_on(node) == []
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
        await reports(node, "NotCleanedUp", claims=0, message="nvidia-smi")
        node.sim.nvidia_smi.with_name("away").rename(node.sim.nvidia_smi)
        broken.unlink()
        assert clean_up(node) == (0, DONE, "")
        assert node.sim.gpus() == before, uuid
