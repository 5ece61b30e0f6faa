"""What it costs an agent with many claims to say who uses its GPUs."""

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import aiohttp

from agent.on_cluster import GpuNode, install
from bench.figures import Figure, absolute, p50
from bench.kubelet import KubeletClient
from bench.ways import CLIENTS, GPUS, memory, start_agent
from gpusharing.kube import client_credentials
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from gpusharing.kube.transport import Api, open_session
from gpusharing.sim.state import ProcessKind
from harness.controlplane import ControlPlane
from harness.loopback import free_ports, own_address

PAGES: Final = 10
MILLISECONDS: Final = 30
MEMORY_MIB: Final = 2
# After which the driver is asked again.
_STALE: Final = 1.1
_SHARES: Final = {"timeSlicing": {"maxClients": CLIENTS, "interval": "Medium"}}


async def measure() -> list[Figure]:
    async with ControlPlane() as control_plane:
        await install(control_plane)
        credentials = await client_credentials.load(control_plane.kubeconfig)
        async with (
            open_session(credentials) as session,
            GpuNode(control_plane, gpus=f"H100-80GB:{GPUS}", start=False) as node,
        ):
            address = own_address()
            listen = f"{address}:{free_ports(address, 1)[0]}"
            await start_agent(node, listen=listen)
            await node.decide(*[_SHARES] * GPUS)
            with ExitStack() as containers:
                claims = await _prepared(node, Api(session, credentials.server, user_agent="gpusharing-bench"))
                for number, uid in enumerate(claims):
                    pid = containers.enter_context(_container(node, uid))
                    uuid = node.sim.gpus()[number % GPUS].uuid
                    node.sim.start_process(uuid, pid, 1 << 30, ProcessKind.COMPUTE, utilization=10)
                return await _measured(node, f"http://{listen}/metrics", len(claims))


async def _measured(node: GpuNode, url: str, claims: int) -> list[Figure]:
    before, times = memory(node.agent.pid), []
    async with aiohttp.ClientSession() as client:
        for _ in range(PAGES):
            await asyncio.sleep(_STALE)
            began = time.perf_counter()
            async with client.get(url) as answer:
                page = await answer.text()
            times.append(time.perf_counter() - began)
    told = [line for line in page.splitlines() if line.startswith("gpusharing_claim_memory_used_bytes{")]
    assert [float(line.rpartition(" ")[2]) for line in told] == [2**30] * claims, page
    text = f"agent's metrics page with {claims} claims, p50 of {PAGES}"
    return [
        absolute(text, p50(times) * 1000, "ms", at_most=MILLISECONDS),
        absolute("agent, resident memory that it takes", memory(node.agent.pid) - before, "MiB", at_most=MEMORY_MIB),
    ]


async def _prepared(node: GpuNode, api: Api) -> Sequence[str]:
    made = [await node.claim(node.shared(slot)) for _ in range(CLIENTS) for slot in range(GPUS)]
    claims = [await api.get(RESOURCE_CLAIMS, one.name, one.namespace) for one in made]
    async with KubeletClient(node.directory / "kubelet") as kubelet:
        await kubelet.prepare(*claims)
    return [claim.metadata.uid for claim in claims]


@contextmanager
def _container(node: GpuNode, claim_uid: str) -> Iterator[int]:
    """A process with as many mounts as those of pods have, the claim's metadata among them."""
    place = node.directory / "mounted"
    place.mkdir(exist_ok=True)
    targets = [place / str(number) for number in range(30)]
    for target in targets:
        target.touch()
    (file,) = (node.state / "metadata" / claim_uid).iterdir()
    mounts = "".join(f"mount --bind '{source}' '{target}' && " for source, target in _mounts(file, targets))
    words = ["unshare", "--mount", "sh", "-c", f"{mounts} echo ready && exec sleep 600"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()


def _mounts(metadata: Path, targets: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    for number, target in enumerate(targets):
        yield (metadata if number == len(targets) - 1 else Path(os.devnull)), target


if __name__ == "__main__":
    for figure in asyncio.run(measure()):
        print(figure.row())
