"""`make bench`: measures on a real cluster with simulated GPUs, prints the table and writes it into the docs."""

import asyncio
import sys

from bench import agent, cluster, crowded, document, hardware, installed, metrics_page, nvidia, selectors, ways
from bench.figures import HEADER, Figure
from gpusharing.kube import client_credentials
from gpusharing.kube.transport import Api, open_session
from harness import toolchain
from harness.gpu_cluster import GpuCluster


async def measure() -> list[Figure]:
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:2") as gpu_cluster:
        credentials = await client_credentials.load(gpu_cluster.kubeconfig)
        async with open_session(credentials) as session:
            api = Api(session, credentials.server, user_agent="gpusharing-bench")
            await gpu_cluster.kubectl("wait", "--for=create", "nodesharing/node-1", "--timeout=30s")
            figures = await cluster.policy_to_slices(api)
            await cluster.offered(gpu_cluster, api, clients=8)
            figures += await cluster.claim_to_prepared(gpu_cluster, api)
            figures += await agent.prepare(gpu_cluster, api)
            figures += await agent.memory_and_start(gpu_cluster)
    for part in (ways, crowded, metrics_page, nvidia, installed, hardware):
        figures += await part.measure()
    return figures + selectors.measure()


def main() -> None:
    toolchain.build()
    figures = asyncio.run(measure())
    table = "\n".join([HEADER, *(figure.row() for figure in figures)])
    print(table)
    document.write("make bench", table)
    if not all(figure.reached for figure in figures):
        print("a goal was missed", file=sys.stderr)


if __name__ == "__main__":
    main()
