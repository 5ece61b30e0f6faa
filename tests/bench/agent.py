"""The agent by itself: Prepare against an empty call on the same socket, memory, start."""

import time
from pathlib import Path

from bench.figures import Figure, absolute, p50, p99, ratio
from bench.kubelet import KubeletClient, reachable
from gpusharing.api.dra import ResourceClaim
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from gpusharing.kube.transport import Api
from harness.gpu_cluster import GpuCluster
from harness.workloads import claim, claim_spec

CLAIMS = 8
"""As many as share a GPU at the same time."""
ROUNDS = 500

MEMORY_MIB, MEMORY_OF_A_NEW_ONE_MIB = 58.3, 55.5
"""2 MiB more than the first agent took, which listed its GPUs and could change two settings."""


async def allocated_claims(api: Api, count: int, device: str) -> list[ResourceClaim]:
    """Claims as the scheduler leaves them; that no pod waits for them is all the same to an agent."""
    claims = []
    for index in range(count):
        body = claim(f"bench-{index}", claim_spec("timeslicing.gpu.nvidia.com"))
        created = await api.create(RESOURCE_CLAIMS, body, "default")
        result = {
            "request": "gpu",
            "driver": "gpu.nvidia.com",
            "pool": "node-1",
            "device": device,
            "shareID": f"00000000-0000-4000-8000-{index:012d}",
            "consumedCapacity": {"shares": "1", "memory": "0"},
        }
        node = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
        allocation = {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [node]}]},
        }
        patch = {"status": {"allocation": allocation}}
        name = created.metadata.name
        claims.append(await api.merge_patch(RESOURCE_CLAIMS, name, patch, namespace="default", subresource="status"))
    return claims


async def prepare(cluster: GpuCluster, api: Api) -> list[Figure]:
    """Needs gpu-0 and gpu-1 offered as time-sliced."""
    async with KubeletClient(cluster.node.kubelet_root) as kubelet:
        holder, *claims = await allocated_claims(api, CLAIMS, "gpu-0-timeslicing")
        for _ in range(ROUNDS):
            await kubelet.prepare()
        empty = [await kubelet.prepare() for _ in range(ROUNDS)]
        chosen = [claims[number % len(claims)] for number in range(ROUNDS)]
        read = [await _seconds_to_read(api, one) for one in chosen]
        # With a client there already: what most pods of a shared GPU meet.
        await kubelet.prepare(holder)
        again = [await kubelet.prepare(holder) for _ in chosen]
        joining = [await _prepare_once(kubelet, one) for one in chosen]
        await kubelet.unprepare(holder)
        first = [await _prepare_once(kubelet, one) for one in chosen]
    call, get = "an empty gRPC call, p50", "reading a claim from the API server, p50"
    return [
        ratio(f"Prepare, p50 of {ROUNDS}", p50(joining), unit=p50(empty), yardstick=call, at_most=20),
        ratio(f"Prepare, p99 of {ROUNDS}", p99(joining), unit=p50(empty), yardstick=call, at_most=60),
        ratio(
            "Prepare, p50, without reading the claim",
            p50(joining) - p50(read),
            unit=p50(empty),
            yardstick=call,
            at_most=10,
        ),
        ratio("Prepare again, p50", p50(again), unit=p50(empty), yardstick=call, at_most=15),
        ratio(
            f"Prepare of a GPU's first client, p50 of {ROUNDS}",
            p50(first),
            unit=p50(empty),
            yardstick=call,
            at_most=60,
        ),
        ratio("Prepare, p50", p50(joining), unit=p50(read), yardstick=get, at_most=4),
    ]


async def _prepare_once(kubelet: KubeletClient, one: ResourceClaim) -> float:
    took = await kubelet.prepare(one)
    await kubelet.unprepare(one)
    return took


async def _seconds_to_read(api: Api, one: ResourceClaim) -> float:
    began = time.perf_counter()
    await api.get(RESOURCE_CLAIMS, one.metadata.name, "default")
    return time.perf_counter() - began


async def memory_and_start(cluster: GpuCluster) -> list[Figure]:
    memory = _resident_mib(cluster.agent.pid)
    starts = []
    for _ in range(5):
        await cluster.agent.stop()
        began = time.perf_counter()
        await cluster.agent.start()
        await reachable(cluster.node.kubelet_root, within=30)
        starts.append(time.perf_counter() - began)
    return [
        absolute("agent, resident memory after all this", memory, "MiB", at_most=MEMORY_MIB),
        absolute(
            "agent, resident memory after a start",
            _resident_mib(cluster.agent.pid),
            "MiB",
            at_most=MEMORY_OF_A_NEW_ONE_MIB,
        ),
        absolute("agent, from exec to the first answer to the kubelet (median of 5)", p50(starts), "s", at_most=1),
    ]


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
