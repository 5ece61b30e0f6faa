"""The node boots, and the kernel numbers the GPUs in another order. Each pod gets the GPU that its claim was allocated,
or it waits and an Event says why; it never sees another's. Looked at all the time: device nodes in containers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from agent.on_cluster import Admin
from chaos import hardware
from chaos.churn import STRANGERS, Churn, Witness
from chaos.invariants import look_at, violations
from gpusharing.sim import SimNode, cdi
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from node.user import User
from toolkit.machine import machine
from toolkit.toolkit import Toolkit

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.node,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="module"),
]

KINDS: Final = ("whole", "whole", "share", "share", "mps", "mig")
OTHER_NUMBER: Final = "which is another GPU now"
MISSING: Final = "was not found on node node-1"
REFUSED: Final = "FailedPrepareDynamicResources"


@dataclass
class Bed:
    cluster: GpuCluster
    admin: Admin
    churn: Churn
    tools: Path

    async def look(self) -> None:
        """Raises what must never be, also where it is only for a moment."""
        state = self.cluster.state_directory(self.cluster.node)
        seen = await asyncio.to_thread(look_at, self.cluster.sim_node, state)
        for violation in violations(seen, strangers=STRANGERS):
            raise violation
        self.churn.follow(seen)

    async def watch(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(0.2)

    async def works(self, *witnesses: Witness) -> None:
        """On the GPU of their claims."""

        async def check() -> None:
            await self.look()
            for witness in witnesses:
                assert witness.program, f"{witness.id} does not work"

        await eventually(check, within=120)
        allocated = await self.allocated()
        assert {one.id: one.gpu for one in witnesses} == {one.id: allocated[one.id] for one in witnesses}

    async def wait_and_say(self, why: Mapping[Witness, str]) -> None:
        async def check() -> None:
            for witness, reason in why.items():
                assert witness.program is None
                path = f"/api/v1/namespaces/{witness.namespace}/events?fieldSelector=involvedObject.name={witness.name}"
                events = (await self.admin.call("GET", path))["items"]
                said = [event["message"] for event in events if event["reason"] == REFUSED]
                assert any(reason in message for message in said), (witness.id, said)

        await eventually(check, within=120)

    async def allocated(self) -> dict[str, str]:
        """By pod: the GPU that the scheduler gave it."""
        user = User(self.cluster)
        gpus = {gpu["slot"]: gpu["uuid"] for gpu in (await user.get("nodesharing", "node-1"))["status"]["gpus"]}
        found = {}
        for claim in (await user.get("resourceclaims", "--all-namespaces"))["items"]:
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            pod = f"{claim['metadata']['namespace']}/{claim['metadata']['ownerReferences'][0]['name']}"
            found[pod] = gpus[int(result["device"].split("-")[1])]
        return found

    async def boot_with(self, change: Callable[[SimNode], None]) -> None:
        """NVIDIA's CDI file stays as it is."""
        await self.admin.call("DELETE", "/api/v1/namespaces/default/events")
        self.churn.excuse(lambda _: True)
        async with self.cluster.switched_off():
            change(self.cluster.sim_node)

    def generate_cdi(self) -> None:
        node, (etc, _) = self.cluster.sim_node, self.cluster.node.cdi_dirs
        with machine(node) as seen:
            Toolkit(self.tools, seen, node).generate(etc / cdi.FILE_NAME)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bed(toolchain: Path, nvidia_tools: Path) -> AsyncIterator[Bed]:
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:7") as cluster, Admin(cluster) as admin:
        churn = Churn(cluster, admin, "renumbered", print)
        await churn.prepare()
        yield Bed(cluster, admin, churn, nvidia_tools)


@pytest.mark.parametrize("a_gpu_is_missing", [False, True], ids=["all are there", "one is missing"])
async def test_each_pod_has_its_own_gpu_or_waits(bed: Bed, a_gpu_is_missing: bool) -> None:
    node = bed.cluster.sim_node
    witnesses = [await bed.churn.begin(kind) for kind in KINDS]
    await bed.works(*witnesses)
    before = node.gpus()
    used = {witness.gpu for witness in witnesses}
    # All behind it get other numbers.
    absent = next(gpu for gpu in before if gpu.uuid in used) if a_gpu_is_missing else None
    absence: list[hardware.Absence] = []

    def change(node: SimNode) -> None:
        if absent:
            absence.append(hardware.take_out(node, absent.index))
        else:
            hardware.exchange_boards(node)

    watch = asyncio.create_task(bed.watch())
    await bed.boot_with(change)
    minors = {gpu.uuid: gpu.minor for gpu in before}
    now = {gpu.uuid: gpu.minor for gpu in node.gpus()}
    missing = [witness for witness in witnesses if witness.gpu not in now]
    moved = [witness for witness in witnesses if witness.gpu in now and now[witness.gpu] != minors[witness.gpu]]
    unmoved = [witness for witness in witnesses if witness not in {*missing, *moved}]
    assert moved
    assert bool(missing) == a_gpu_is_missing
    reasons = dict.fromkeys(moved, OTHER_NUMBER) | dict.fromkeys(missing, MISSING)
    await bed.wait_and_say(reasons)
    await bed.works(*unmoved)

    bed.generate_cdi()
    await bed.works(*moved, *unmoved)
    await bed.wait_and_say(dict.fromkeys(missing, MISSING))
    # Whoever comes now gets a GPU that nobody has.
    await bed.works(await bed.churn.begin("whole"), *moved, *unmoved)
    assert await health(bed) == {gpu.uuid: "GpuLost" if gpu == absent else "Healthy" for gpu in before}

    if absence:
        await bed.boot_with(lambda node: hardware.put_back(node, absence[0]))
        bed.generate_cdi()
    await bed.works(*bed.churn.present())
    watch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watch
    for witness in bed.churn.present():
        await bed.churn.end(witness)
    await User(bed.cluster).nothing_prepared()


async def health(bed: Bed) -> dict[str, str]:
    """The reason of each GPU's condition."""
    gpus: list[Any] = (await User(bed.cluster).get("nodesharing", "node-1"))["status"]["gpus"]
    return {gpu["uuid"]: next(one["reason"] for one in gpu["conditions"] if one["type"] == "Healthy") for gpu in gpus}
