"""Another image of the agent, while pods run and others come and go."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from agent.on_cluster import CUT_OFF, Claim, Kubelet
from harness.archives import write_other_image
from harness.installed_cluster import AGENT, NAMESPACE, InstalledCluster
from harness.workloads import claim_spec, pod, template, time_slicing
from install.churn import RETRIED_WITHIN, come_and_go
from node.user import SHARED, AnyUser

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

NEXT: Final = "docker.io/library/gpusharing:next"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(cluster: InstalledCluster) -> AsyncIterator[AnyUser]:
    await cluster.apply()
    yield AnyUser(cluster)


class Caller:
    """Calls Prepare for a claim that is prepared, which changes nothing, and notes for how long nobody answers."""

    def __init__(self, kubelet: Kubelet, claim: Claim) -> None:
        self._kubelet = kubelet
        self._claim = claim
        self.longest_gap = 0.0

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        calls = asyncio.create_task(self._call())
        try:
            yield
        finally:
            calls.cancel()
            await asyncio.gather(calls, return_exceptions=True)

    async def _call(self) -> None:
        answered = time.monotonic()
        while True:
            try:
                answers = await self._kubelet.prepare(self._claim)
            except CUT_OFF:
                await asyncio.sleep(0.01)
                continue
            if not answers[self._claim.uid].error:
                self.longest_gap = max(self.longest_gap, time.monotonic() - answered)
                answered = time.monotonic()
            await asyncio.sleep(0.02)


async def test_agents_are_updated_under_running_pods(
    user: AnyUser, cluster: InstalledCluster, images: list[Path], tmp_path: Path
) -> None:
    other = tmp_path / "other.tar"
    write_other_image(images[0], other, name=NEXT, labels={"org.opencontainers.image.version": "next"})
    await cluster.node.import_image(other)
    await user.apply(time_slicing("quarters"), template("share", claim_spec(SHARED)))
    await user.wait("sharingpolicy/quarters", "--for=condition=Ready")
    await user.apply(pod("stays", template="share"))
    await user.wait("pod/stays", "--for=condition=Ready")
    claim = (await user.claim_of(await user.get("pod", "stays")))["metadata"]
    before = await cluster.agent_pod()

    socket = cluster.node.kubelet_root / "plugins" / "gpu.nvidia.com" / "dra.sock"
    caller = Caller(Kubelet(socket), Claim(claim["uid"], claim["name"]))
    updated = asyncio.Event()
    async with caller.calling(), asyncio.TaskGroup() as tasks:
        coming_and_going = tasks.create_task(come_and_go(user, "comes", template="share", until=updated))
        await cluster.kubectl("set", "image", AGENT, f"agent={NEXT}", f"--namespace={NAMESPACE}")
        await cluster.rolled_out()
        updated.set()
    after = await cluster.agent_pod()
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["imageID"] != before["status"]["containerStatuses"][0]["imageID"]
    starts = coming_and_going.result()
    print(f"gap in Prepare: {caller.longest_gap:.1f} s; {len(starts)} pods came, the slowest in {max(starts):.1f} s")
    assert max(starts) < RETRIED_WITHIN
    assert caller.longest_gap < RETRIED_WITHIN

    stayed = await user.get("pod", "stays")
    assert stayed["status"]["containerStatuses"][0]["restartCount"] == 0
    await user.delete("pods", "--all", "--grace-period=0")
    await user.nothing_prepared()
