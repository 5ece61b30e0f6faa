"""An agent on a node of eight GPUs: Prepare and Unprepare of every kind, a node that is full, and narrowing."""

import asyncio
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agent.on_cluster import EXCLUSIVE, GpuNode, install, opaque
from agent.samples import prepared_claim, prepared_device
from bench.figures import Figure, absolute, p50, p99, ratio
from bench.kubelet import KubeletClient
from building import interval_config
from gpusharing.agent.state.models import GpuJournal, GpuSettings
from gpusharing.agent.state.records import Records
from gpusharing.api.dra import ResourceClaim, ResourceSlice
from gpusharing.api.sharing.offers import Interval
from gpusharing.kube import client_credentials
from gpusharing.kube.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES
from gpusharing.kube.transport import Api, open_session
from harness import agent_environment
from harness.controlplane import ControlPlane

GPUS, CLIENTS = 8, 8
ROUNDS: Final = 100
MEMORY_MIB: Final = 60
"""Of the agent, whatever it does for so many claims."""
_QUIET: Final = 20.0
"""Seconds after which connections that nobody uses are closed."""

_SHARES: Final = {"timeSlicing": {"maxClients": CLIENTS, "interval": "Medium"}}
_MPS: Final = {"mps": {"maxClients": CLIENTS, "memory": {"default": "8Gi"}, "threads": {"default": 25}}}
_PARTS: Final = {"mig": {"profiles": ["1g.10gb"]}}
_EMPTY: Final = "an empty gRPC call, p50"


@dataclass(frozen=True)
class Kind:
    """One way of holding a GPU. Most of the goals are NVIDIA's driver on a machine like this one."""

    name: str
    slot: int
    offers: Mapping[str, Any]
    goals: tuple[float, float, float, float]
    """Prepare p50 and p99, Unprepare p50 and p99."""
    device: str = "gpu-{}"
    consumed: Mapping[str, str] | None = None
    interval: str | None = None
    joins: bool = False
    """There is another claim on the GPU already."""

    async def claim(self, node: GpuNode) -> Any:
        device = self.device.format(self.slot)
        result = node.whole(self.slot, device=device)
        if self.consumed:
            result = node.shared(self.slot, device=device, consumedCapacity=dict(self.consumed))
        return await node.claim(result, config=[opaque(interval_config(self.interval))] if self.interval else [])


_OF_SHARES: Final = {"shares": "1", "memory": "0"}
_OF_MPS: Final = {"shares": "1", "memory": "8Gi", "threads": "25"}
_SHARE, _CLIENT, _PART = "gpu-{}-timeslicing", "gpu-{}-mps", "gpu-{}-mig-1g10gb-19-6"

KINDS: Final = (
    Kind("a whole GPU", 0, EXCLUSIVE, (14.6, 25, 5, 9.6)),
    Kind("a whole GPU, time slice Long", 1, EXCLUSIVE, (27, 40, 13.8, 22), interval="Long"),
    Kind("a share in turns", 2, _SHARES, (27, 40, 13.8, 22), device=_SHARE, consumed=_OF_SHARES),
    Kind("one more share", 3, _SHARES, (14.6, 25, 5, 9.6), device=_SHARE, consumed=_OF_SHARES, joins=True),
    Kind("a share by MPS", 4, _MPS, (500, 800, 300, 500), device=_CLIENT, consumed=_OF_MPS),
    Kind("one more share by MPS", 5, _MPS, (14.6, 25, 5, 9.6), device=_CLIENT, consumed=_OF_MPS, joins=True),
    Kind("a MIG instance", 6, _PARTS, (40, 80, 20, 40), device=_PART),
)


async def measure() -> list[Figure]:
    async with ControlPlane() as control_plane:
        await install(control_plane)
        credentials = await client_credentials.load(control_plane.kubeconfig)
        async with open_session(credentials) as session:
            api = Api(session, credentials.server, user_agent="gpusharing-bench")
            async with GpuNode(control_plane, gpus=f"H100-80GB:{GPUS}", start=False) as node:
                await start_agent(node)
                figures = await _of_every_kind(node, api)
                figures += await _full_node(node, api)
            async with GpuNode(control_plane, gpus="H100-80GB:1", start=False) as node:
                await start_agent(node, taken_wait="0")
                figures.append(await _narrowed(node, api))
            return figures


async def start_agent(node: GpuNode, **changes: str) -> None:
    """As a node has it: with no more packages than it needs, and its manifest's environment."""
    node.agent = node.process(**changes)
    node.agent.argv[0] = str(agent_environment.python())
    node.agent.env.update(agent_environment.variables())
    await node.agent.start()


async def _of_every_kind(node: GpuNode, api: Api) -> list[Figure]:
    figures: list[Figure] = []
    await node.decide(*(kind.offers for kind in KINDS))
    async with KubeletClient(node.directory / "kubelet") as kubelet:
        for _ in range(ROUNDS):
            await kubelet.prepare()
        for kind in KINDS:
            other, measured = await _read(api, await kind.claim(node)), await _read(api, await kind.claim(node))
            if kind.joins:
                await kubelet.prepare(other)
            coming, going, nothing = [], [], []
            for _ in range(ROUNDS):
                # Beside each other, so that a machine that gets slower is slower for all.
                nothing.append(await kubelet.prepare())
                coming.append(await kubelet.prepare(measured))
                going.append(await kubelet.unprepare(measured))
            if kind.joins:
                await kubelet.unprepare(other)
            for what, times, goals in (("Prepare", coming, kind.goals[:2]), ("Unprepare", going, kind.goals[2:])):
                for name, value, goal in (("p50", p50(times), goals[0]), ("p99", p99(times), goals[1])):
                    text = f"{what} of {kind.name}, {name} of {ROUNDS}"
                    figures.append(ratio(text, value, unit=p50(nothing), yardstick=_EMPTY, at_most=goal))
            if kind.interval:
                figures.append(_journal(p50(coming)))
    return figures


def _journal(prepare: float) -> Figure:
    """What a GPU goes back to, and the claim's record: the files that such a Prepare waits for."""
    times = []
    with tempfile.TemporaryDirectory(prefix="gpusharing-bench-") as directory:
        records = Records(Path(directory))
        claim = prepared_claim("bench", prepared_device("gpu-0", interval=Interval.LONG))
        journal = GpuJournal(settings=GpuSettings(time_slice=Interval.DEFAULT, compute_mode="Default"))
        for _ in range(ROUNDS):
            began = time.perf_counter()
            records.put_claim(claim)
            records.put_journal("GPU-n1-0", journal)
            times.append(time.perf_counter() - began)
            records.drop_claim(claim.uid)
            records.put_journal("GPU-n1-0", GpuJournal())
    unit = "Prepare of a whole GPU, time slice Long, p50"
    return ratio("record and journal of it", p50(times), unit=prepare, yardstick=unit, at_most=0.2)


async def _full_node(node: GpuNode, api: Api) -> list[Figure]:
    await node.decide(*[_SHARES] * GPUS)
    shares = [await node.claim(node.shared(slot)) for slot in range(GPUS) for _ in range(CLIENTS)]
    claims = [await _read(api, share) for share in shares]
    async with KubeletClient(node.directory / "kubelet") as kubelet:
        empty = p50([await kubelet.prepare() for _ in range(ROUNDS)])
        took = await kubelet.prepare(*claims)
    await asyncio.sleep(_QUIET)
    before, began = _cpu_seconds(node.agent.pid), time.perf_counter()
    await asyncio.sleep(_QUIET)
    idle = 100 * (_cpu_seconds(node.agent.pid) - before) / (time.perf_counter() - began)
    return [
        ratio(f"{len(claims)} claims at once, each", took / len(claims), unit=empty, yardstick=_EMPTY, at_most=27),
        absolute(
            f"agent, resident memory with {len(claims)} claims", memory(node.agent.pid), "MiB", at_most=MEMORY_MIB
        ),
        absolute("agent, idle, of a core", idle, "%", at_most=0.3),
    ]


async def _narrowed(node: GpuNode, api: Api) -> Figure:
    """Without the time for which it is to wait."""
    await node.decide(EXCLUSIVE | _SHARES | _MPS | _PARTS)
    ways = ("gpu-0", "gpu-0-timeslicing", "gpu-0-mps", *(f"gpu-0-mig-1g10gb-19-{start}" for start in range(7)))
    share = await _read(api, await node.claim(node.shared()))
    times, writes = [], []
    async with KubeletClient(node.directory / "kubelet") as kubelet:
        for _ in range(20):
            await node.offers(*ways)
            slices, version = await api.list(RESOURCE_SLICES)
            await kubelet.prepare(share)
            began = time.perf_counter()
            await _until_offered(api, version, {"gpu-0-timeslicing"})
            times.append(time.perf_counter() - began)
            await kubelet.unprepare(share)
            writes.append(await _seconds_to_write(api, slices[0]))
    unit = "writing a slice, p50"
    return ratio("mode taken -> slices narrowed, p50 of 20", p50(times), unit=p50(writes), yardstick=unit, at_most=50)


async def _until_offered(api: Api, version: str, wanted: set[str]) -> None:
    async with asyncio.timeout(30):
        async for _, value in api.watch(RESOURCE_SLICES, version):
            slice_: ResourceSlice = RESOURCE_SLICES.from_json(value)
            if {device["name"] for device in slice_.spec.get("devices", ())} == wanted:
                return


async def _seconds_to_write(api: Api, slice_: ResourceSlice) -> float:
    began = time.perf_counter()
    await api.merge_patch(RESOURCE_SLICES, slice_.metadata.name, {"metadata": {"annotations": {"bench": str(began)}}})
    return time.perf_counter() - began


async def _read(api: Api, claim: Any) -> ResourceClaim:
    return await api.get(RESOURCE_CLAIMS, claim.name, claim.namespace)


def memory(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def _cpu_seconds(pid: int) -> float:
    fields: Sequence[str] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
