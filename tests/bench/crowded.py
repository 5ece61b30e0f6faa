"""Whether a claim costs more on a node that has many."""

import asyncio
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
ROUNDS: Final = 200
MOST_TO_LEAST: Final = 1.3
_AT_ONCE: Final = 16
_SHARES: Final = {"timeSlicing": {"maxClients": 2 * max(CROWDS) // GPUS, "interval": "Medium"}}


async def measure() -> list[Figure]:
    async with ControlPlane() as control_plane:
        await install(control_plane)
        credentials = await client_credentials.load(control_plane.kubeconfig)
        async with (
            open_session(credentials) as session,
            GpuNode(control_plane, gpus=f"H100-80GB:{GPUS}", start=False) as node,
        ):
            await start_agent(node)
            api = Api(session, credentials.server, user_agent="gpusharing-bench")
            return await _measure(node, api)


async def _measure(node: GpuNode, api: Api) -> list[Figure]:
    """Each GPU has one client at least: the first one and the last one set it, which is measured elsewhere."""
    await node.decide(*[_SHARES] * GPUS)
    coming: dict[int, float] = {}
    going: dict[int, float] = {}
    async with KubeletClient(node.directory / "kubelet") as kubelet:
        crowd: list[ResourceClaim] = []
        mine = [await _read(api, await node.claim(node.shared(slot))) for slot in range(GPUS)]
        residents = [await _read(api, await node.claim(node.shared(slot))) for slot in range(GPUS)]
        await kubelet.prepare(*residents)
        for size in CROWDS:
            while len(crowd) < size:
                joining = await asyncio.gather(*(_allocated(node, api, slot % GPUS) for slot in range(_AT_ONCE)))
                await kubelet.prepare(*joining)
                crowd += joining
            await _name(node, [*residents, *crowd])
            times: tuple[list[float], list[float]] = [], []
            for number in range(ROUNDS):
                claim = mine[number % GPUS]
                times[0].append(await kubelet.prepare(claim))
                times[1].append(await kubelet.unprepare(claim))
            coming[size], going[size] = p50(times[0]), p50(times[1])
    return [_figure("Prepare", coming), _figure("Unprepare", going)]


def _figure(call: str, times: dict[int, float]) -> Figure:
    value = max(times.values()) / min(times.values())
    shown = ", ".join(f"{seconds * 1000:.2f} ms" for seconds in times.values())
    crowds = ", ".join(map(str, times))
    return Figure(
        f"{call}, p50 of {ROUNDS}, with {crowds} other claims on {GPUS} GPUs: most",
        f"{value:.2f} ({shown})",
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
