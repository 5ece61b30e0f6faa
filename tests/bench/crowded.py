"""Whether a claim costs more on a node that has many."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from agent.on_cluster import DRIVER, GpuNode, install
from bench.figures import Figure, p50
from bench.kubelet import KubeletClient
from bench.ways import GPUS, start_agent
from gpusharing.api.dra import ResourceClaim
from gpusharing.core.claims import allocation
from gpusharing.kube import client_credentials
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from gpusharing.kube.transport import Api, open_session
from harness.controlplane import ControlPlane

CROWDS: Final = (0, 64, 256, 512)
"""Instead of none, a node has one for each of its GPUs."""
ROUNDS: Final = 200
MOST_TO_LEAST: Final = 1.3
_SHARES: Final = {"timeSlicing": {"maxClients": 2 * max(CROWDS) // GPUS, "interval": "Medium"}}


async def measure() -> list[Figure]:
    async with ControlPlane() as control_plane, AsyncExitStack() as stack:
        await install(control_plane)
        credentials = await client_credentials.load(control_plane.kubeconfig)
        session = await stack.enter_async_context(open_session(credentials))
        api = Api(session, credentials.server, user_agent="gpusharing-bench")
        nodes = [await stack.enter_async_context(_crowded(control_plane, api, size)) for size in CROWDS]
        coming: list[list[float]] = [[] for _ in nodes]
        going: list[list[float]] = [[] for _ in nodes]
        for number in range(ROUNDS):
            # In turns: a machine that gets slower is slower for all.
            for index, (kubelet, claims) in enumerate(nodes):
                claim = claims[number % GPUS]
                coming[index].append(await kubelet.prepare(claim))
                going[index].append(await kubelet.unprepare(claim))
        return [_figure("Prepare", coming), _figure("Unprepare", going)]


@asynccontextmanager
async def _crowded(
    control_plane: ControlPlane, api: Api, size: int
) -> AsyncIterator[tuple[KubeletClient, list[ResourceClaim]]]:
    """A node with so many prepared claims, and a claim for each of its GPUs that is not. Each GPU has one client at
    least: the first one and the last one set it, which is measured elsewhere."""
    async with GpuNode(control_plane, gpus=f"H100-80GB:{GPUS}", start=False) as node:
        await start_agent(node)
        await node.decide(*[_SHARES] * GPUS)
        async with KubeletClient(node.directory / "kubelet") as kubelet:
            claims = [await _allocated(node, api, slot) for slot in range(GPUS)]
            crowd: list[ResourceClaim] = []
            while len(crowd) < max(size, GPUS):
                joining = await asyncio.gather(*(_allocated(node, api, slot) for slot in range(GPUS)))
                await kubelet.prepare(*joining)
                crowd += joining
            await _name(node, [*claims, *crowd])
            yield kubelet, claims


def _figure(call: str, times: Sequence[Sequence[float]]) -> Figure:
    medians = [p50(samples) for samples in times]
    value = max(medians) / min(medians)
    shown = ", ".join(f"{seconds * 1000:.2f}" for seconds in medians)
    return Figure(
        f"{call}, p50 of {ROUNDS}, with {', '.join(map(str, CROWDS))} other claims on {GPUS} GPUs, most",
        f"{value:.2f} ({shown} ms)",
        "least of these",
        f"<= {MOST_TO_LEAST}",
        value <= MOST_TO_LEAST,
    )


async def _allocated(node: GpuNode, api: Api, slot: int) -> ResourceClaim:
    return await _read(api, await node.claim(node.shared(slot)))


async def _name(node: GpuNode, claims: list[ResourceClaim]) -> None:
    """As the operator does."""
    named: list[dict[str, Any]] = [
        {
            "uid": claim.metadata.uid,
            "claim": allocation.display_name(claim),
            "allocationHash": allocation.digest(claim, DRIVER),
            "verdict": "Allowed",
        }
        for claim in claims
    ]
    await node.tell({"claims": named})


async def _read(api: Api, claim: Any) -> ResourceClaim:
    return await api.get(RESOURCE_CLAIMS, claim.name, claim.namespace)


if __name__ == "__main__":
    for figure in asyncio.run(measure()):
        print(figure.row())
