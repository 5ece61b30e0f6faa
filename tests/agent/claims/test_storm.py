"""Many claims come and go while the agent is killed again and again."""

import asyncio
import os
import random
from collections.abc import Iterable

import pytest

from agent.on_cluster import BOTH, CUT_OFF, EXCLUSIVE, Claim, GpuNode, opaque
from building import interval_config
from gpusharing.sim import ComputeMode, Timeslice
from harness.controlplane import ControlPlane
from harness.eventually import eventually

pytestmark = pytest.mark.cluster

CALLS = 200
KILLS = 4
SEED = int(os.environ.get("GPUSHARING_STORM_SEED", "1"))


class Storm:
    """The kubelet's part: each call is repeated until it has an answer."""

    def __init__(self, node: GpuNode, claims: dict[str, list[Claim]]) -> None:
        self.node = node
        self.claims = claims
        self.random = random.Random(SEED)  # noqa: S311
        self.held: dict[str, Claim] = {}
        self.cut_off = 0

    async def _until_answered(self, prepare: bool, claim: Claim) -> None:
        while True:
            try:
                if prepare:
                    error = (await self.node.kubelet.prepare(claim, within=5))[claim.uid].error
                else:
                    error = (await self.node.kubelet.unprepare(claim, within=5))[claim.uid]
            except CUT_OFF:
                self.cut_off += 1
                await asyncio.sleep(0.05)
            else:
                assert not error
                return

    async def run(self) -> None:
        """One worker for each device: what the scheduler would allow at the same time."""
        await asyncio.gather(*(self._work(claims, CALLS // len(self.claims)) for claims in self.claims.values()))

    async def _work(self, claims: list[Claim], calls: int) -> None:
        shared = len(claims) > 2
        for _ in range(calls):
            claim = self.random.choice(claims)
            others = [held for held in claims if held.uid in self.held and held != claim]
            if claim.uid in self.held:
                await self._until_answered(prepare=False, claim=claim)
                del self.held[claim.uid]
            elif shared or not others:
                await self._until_answered(prepare=True, claim=claim)
                self.held[claim.uid] = claim
            else:
                await self._until_answered(prepare=False, claim=others[0])
                del self.held[others[0].uid]
            await asyncio.sleep(0.005)


def holds(storm: Storm, claims: Iterable[Claim]) -> bool:
    return any(claim.uid in storm.held for claim in claims)


async def test_killed_at_random_moments(installed: ControlPlane) -> None:
    async with GpuNode(installed, gpus="H100-80GB:3") as node:
        before = [Timeslice.SHORT, Timeslice.DEFAULT, Timeslice.MEDIUM]
        for gpu, timeslice in zip(node.sim.gpus(), before, strict=True):
            node.sim.set_timeslice(gpu.uuid, timeslice)
        node.sim.set_compute_mode(node.sim.gpus()[0].uuid, ComputeMode.EXCLUSIVE_PROCESS)
        await node.decide({"timeSlicing": {"maxClients": 6, "interval": "Medium"}}, EXCLUSIVE, BOTH)
        long = [opaque(interval_config("Long"))]
        claims = {
            "shared": [await node.claim(node.shared(0)) for _ in range(6)],
            "whole": [await node.claim(node.whole(1), config=long) for _ in range(2)],
            "plain": [await node.claim(node.whole(2)) for _ in range(2)],
        }
        storm = Storm(node, claims)
        raging = asyncio.create_task(storm.run())
        for _ in range(KILLS):
            await asyncio.sleep(storm.random.uniform(0.05, 0.6))
            await node.agent.kill()
            await node.agent.start()
        await raging
        assert storm.cut_off >= KILLS

        expected = [
            Timeslice.MEDIUM if holds(storm, claims["shared"]) else before[0],
            Timeslice.LONG if holds(storm, claims["whole"]) else before[1],
            before[2],
        ]
        exclusive = ComputeMode.DEFAULT if holds(storm, claims["shared"]) else ComputeMode.EXCLUSIVE_PROCESS
        for _ in range(2):
            assert node.prepared() == set(node.specs()) == set(storm.held)
            assert node.time_slices() == expected
            assert [gpu.compute_mode for gpu in node.sim.gpus()] == [exclusive, *[ComputeMode.DEFAULT] * 2]
            assert [path for path in node.directory.rglob(".*.tmp") if path.is_file()] == []
            assert list(node.state.rglob("*.quarantined")) == []
            # The same again after a restart.
            await node.agent.restart()

        async def reported() -> None:
            assert {claim["uid"] for claim in (await node.sharing())["status"]["claims"]} == set(storm.held)

        await eventually(reported)
        everything = [claim for group in claims.values() for claim in group]
        await node.kubelet.unprepare(*everything)
        assert node.prepared() == set(node.specs()) == set()
        assert node.time_slices() == before
        assert node.sim.gpus()[0].compute_mode is ComputeMode.EXCLUSIVE_PROCESS
        assert list((node.state / "journal").iterdir()) == []
