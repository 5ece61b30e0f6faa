"""The agent's pod as manifests install it: what its control group is charged with, which is what its limit counts."""

import asyncio
from pathlib import Path
from typing import Final, NamedTuple

from bench.agent import allocated_claims
from bench.cluster import offered
from bench.figures import Figure, absolute
from bench.kubelet import KubeletClient
from gpusharing.kube import client_credentials
from gpusharing.kube.transport import Api, open_session
from harness.eventually import eventually
from harness.installed_cluster import InstalledCluster, build_images
from node.user import AnyUser

CLAIMS: Final = 64
REQUEST_MIB, LIMIT_MIB = 64, 256
"""Of manifests/base/agent.yaml."""
_QUIET: Final = 20.0
"""Seconds after which connections that nobody uses are closed."""
_CGROUPS: Final = Path("/sys/fs/cgroup/memory/k8s.io")


class Memory(NamedTuple):
    """In MiB."""

    anonymous: float
    working_set: float
    """As `kubectl top` and the kubelet's eviction count it."""
    most: float
    """Ever, with files that were read, which the kernel drops where it needs their memory."""


async def measure() -> list[Figure]:
    archives = build_images()
    # Where this machine has version 1, controllers belong to it.
    async with InstalledCluster(node_names=["node-1"], archives=archives, with_cgroup2=False) as cluster:
        await cluster.apply()
        credentials = await client_credentials.load(cluster.kubeconfig)
        async with open_session(credentials) as session:
            api = Api(session, credentials.server, user_agent="gpusharing-bench")
            await offered(cluster, api, clients=CLAIMS)
            await asyncio.sleep(_QUIET)
            without = await _memory(cluster)
            await _prepare(cluster, api)
            await asyncio.sleep(_QUIET)
            having = await _memory(cluster)
    name = "agent's container, working set"
    return [
        absolute(f"{name}, no claims", without.working_set, "MiB", at_most=REQUEST_MIB),
        absolute(f"{name}, {CLAIMS} claims", having.working_set, "MiB", at_most=REQUEST_MIB),
        absolute(f"agent's container, anonymous memory, {CLAIMS} claims", having.anonymous, "MiB", at_most=REQUEST_MIB),
        absolute("agent's container, most that it has used, with files read", having.most, "MiB", at_most=LIMIT_MIB),
    ]


async def _prepare(cluster: InstalledCluster, api: Api) -> None:
    user = AnyUser(cluster)
    async with KubeletClient(cluster.node.kubelet_root) as kubelet:
        for claim in await allocated_claims(api, CLAIMS, "gpu-0-timeslicing"):
            await kubelet.prepare(claim)

    async def all_are_reported() -> None:
        assert len((await user.get("nodesharing", "node-1"))["status"]["claims"]) == CLAIMS

    await eventually(all_are_reported)


async def _memory(cluster: InstalledCluster) -> Memory:
    (status,) = (await cluster.agent_pod())["status"]["containerStatuses"]
    cgroup = _CGROUPS / status["containerID"].removeprefix("containerd://")
    used, most = (int((cgroup / f"memory.{name}_in_bytes").read_text()) for name in ("usage", "max_usage"))
    details = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
    working_set = used - int(details["total_inactive_file"])
    return Memory(*(amount / 2**20 for amount in (int(details["total_rss"]), working_set, most)))


if __name__ == "__main__":
    for figure in asyncio.run(measure()):
        print(figure.row())
