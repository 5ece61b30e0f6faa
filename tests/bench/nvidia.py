"""Our agent and the kubelet plugin of NVIDIA's DRA driver: the same API server, the same simulated GPUs, in turns."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent.on_cluster import EXCLUSIVE, Claim, GpuNode, install, opaque
from bench.figures import Figure, p50, p99, relative
from bench.kubelet import KubeletClient
from bench.ways import MEMORY_MIB, memory, start_agent
from building import interval_config
from gpusharing.api.dra import ResourceClaim
from gpusharing.kube import client_credentials
from gpusharing.kube.kinds import RESOURCE_CLAIMS
from gpusharing.kube.transport import Api, open_session
from harness import toolchain
from harness.controlplane import ControlPlane
from harness.processes import Process
from harness.readiness import accepts

GPUS: Final = 8
ROUNDS: Final = 200
_WARM: Final = 20
# NVIDIA's client sends five requests a second by default: a node that starts many pods waits for that first.
_REQUESTS: Final = "10000"


class _Kind(NamedTuple):
    name: str
    interval: str | None
    """Of a claim with NVIDIA's own config for time-slicing."""
    gates: str
    """Feature gates of NVIDIA's plugin. Without TimeSlicingSettings it does less for a plain GPU."""


_KINDS: Final = (
    _Kind("a whole GPU", None, ""),
    _Kind("a time-sliced GPU", "Long", "TimeSlicingSettings=true"),
)


async def measure() -> list[Figure]:
    figures: list[Figure] = []
    async with ControlPlane() as control_plane:
        await install(control_plane)
        credentials = await client_credentials.load(control_plane.kubeconfig)
        async with open_session(credentials) as session:
            api = Api(session, credentials.server, user_agent="gpusharing-bench")
            for kind in _KINDS:
                async with _ours(control_plane) as ours, _theirs(control_plane, kind) as theirs:
                    figures += await _side_by_side(kind, api, ours, theirs)
    return figures


@asynccontextmanager
async def _ours(control_plane: ControlPlane) -> AsyncIterator[GpuNode]:
    async with GpuNode(control_plane, gpus=f"H100-80GB:{GPUS}", start=False) as node:
        await start_agent(node)
        await node.decide(*[EXCLUSIVE] * GPUS)
        yield node


@asynccontextmanager
async def _theirs(control_plane: ControlPlane, kind: _Kind) -> AsyncIterator[GpuNode]:
    async with GpuNode(control_plane, gpus=f"H100-80GB:{GPUS}", start=False) as node:
        node.agent = _plugin(control_plane, node, kind)
        await node.agent.start()
        yield node


def _plugin(control_plane: ControlPlane, node: GpuNode, kind: _Kind) -> Process:
    flags: dict[str, str | Path] = {
        "node-name": node.name,
        "kubeconfig": control_plane.kubeconfig,
        "kube-api-qps": _REQUESTS,
        "kube-api-burst": _REQUESTS,
        "image-name": "none",
        "cdi-root": node.cdi,
        "nvidia-driver-root": node.sim.directory,
        "container-driver-root": node.sim.directory,
        "nvidia-cdi-hook-path": toolchain.build_nvidia_tools() / "nvidia-cdi-hook",
        "kubelet-plugins-directory-path": node.endpoint.parents[1],
        "kubelet-registrar-directory-path": node.registration.parent,
    }
    if kind.gates:
        flags["feature-gates"] = kind.gates
    node.endpoint.parent.mkdir(parents=True)
    node.registration.parent.mkdir(parents=True)

    async def is_ready() -> bool:
        return await accepts(node.registration)

    return Process(
        [toolchain.build_dra_plugin(), *(f"--{name}={value}" for name, value in flags.items())],
        log=node.directory / "plugin.log",
        ready=is_ready,
        env={"NVIDIA_DRA_SYSFS_ROOT": str(node.sim.sys), "TMPDIR": str(node.directory), "PATH": os.environ["PATH"]},
    )


async def _side_by_side(kind: _Kind, api: Api, *nodes: GpuNode) -> list[Figure]:
    times: list[tuple[list[float], list[float]]] = [([], []) for _ in nodes]
    claims = [await _read(api, await _claim(node, kind, 0)) for node in nodes]
    async with _clients(nodes) as kubelets:
        for number in range(_WARM + ROUNDS):
            # In turns: a machine that gets slower is slower for both.
            for kubelet, claim, (coming, going) in zip(kubelets, claims, times, strict=True):
                took = await kubelet.prepare(claim), await kubelet.unprepare(claim)
                if number >= _WARM:
                    coming.append(took[0])
                    going.append(took[1])
        figures = _figures(kind, *times)
        if kind.interval is None:
            figures += _memory(*nodes)
    return figures


def _figures(
    kind: _Kind, ours: tuple[Sequence[float], Sequence[float]], theirs: tuple[Sequence[float], Sequence[float]]
) -> list[Figure]:
    driver = f"NVIDIA's driver {toolchain.dra_plugin_version()}"
    return [
        relative(f"{call} of {kind.name}, {name} of {ROUNDS}", of(own), unit=of(other), yardstick=driver, at_most=goal)
        for call, own, other in (("Prepare", ours[0], theirs[0]), ("Unprepare", ours[1], theirs[1]))
        for name, of, goal in (("p50", p50, 0.9), ("p99", p99, 1.0))
    ]


def _memory(*nodes: GpuNode) -> list[Figure]:
    ours, theirs = (memory(node.agent.pid) for node in nodes)
    note = f"NVIDIA's driver ({theirs:.1f} MiB)"
    return [
        Figure(
            "agent, resident memory after this",
            f"{ours / theirs:.2f} ({ours:.1f} MiB)",
            note,
            f"<= {MEMORY_MIB} MiB",
            ours <= MEMORY_MIB,
        )
    ]


@asynccontextmanager
async def _clients(nodes: Sequence[GpuNode]) -> AsyncIterator[list[KubeletClient]]:
    clients = [KubeletClient(node.directory / "kubelet") for node in nodes]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


async def _claim(node: GpuNode, kind: _Kind, slot: int) -> Claim:
    return await node.claim(node.whole(slot), config=[opaque(interval_config(kind.interval))] if kind.interval else [])


async def _read(api: Api, claim: Any) -> ResourceClaim:
    return await api.get(RESOURCE_CLAIMS, claim.name, claim.namespace)


if __name__ == "__main__":
    for figure in asyncio.run(measure()):
        print(figure.row())
