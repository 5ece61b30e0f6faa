"""Prometheus before real agents and a real operator, which it scrapes as the PodMonitor says."""

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from gpusharing.core import quantities
from harness.eventually import eventually
from harness.gpu_cluster import NAMESPACE, GpuCluster
from harness.processes import Process
from harness.prometheus import Prometheus
from monitoring.expressions import MONITORING, PAGE, RULES
from monitoring.static_exporter import static_exporter
from monitoring.workload import SHARE, WAITING, WORKERS, Worker, create, prepare, start
from node.user import User

Json = dict[str, Any]

PRICES: Final = {"node-1": 2.0, "node-2": 3.5}
"""Of a GPU for an hour."""
_ENDPOINT: Final = yaml.safe_load((MONITORING / "podmonitor.yaml").read_text())["spec"]["podMetricsEndpoints"][0]
[_RESTORING] = re.findall(r"^```yaml\nmetricRelabelings:\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Place:
    """Of a claim's device."""

    node: str
    slot: str
    gpu_uuid: str
    device: str
    memory: int
    """Of the device, in bytes; that of a shared one is the GPU's."""


@dataclass(frozen=True)
class Bed:
    user: User
    prometheus: Prometheus
    not_honoring: Prometheus
    """Labels of ours; in cluster `restored` as the page says for that case."""

    @property
    def cluster(self) -> GpuCluster:
        return self.user.cluster

    async def place(self, worker: Worker) -> Place:
        """By the word of the scheduler."""
        claim = await self.user.get("resourceclaim", worker.name, f"--namespace={worker.namespace}")
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        name = result["device"]
        slot = re.match(r"gpu-(\d+)", name)
        assert slot
        gpu = self.cluster.simulated[worker.node].gpus()[int(slot[1])]
        for published in (await self.user.get("resourceslices"))["items"]:
            for device in published["spec"].get("devices", ()):
                if (published["spec"]["pool"]["name"], device["name"]) == (result["pool"], name):
                    memory = quantities.exact(device["capacity"]["memory"]["value"])
                    return Place(worker.node, slot[1], gpu.uuid, name, int(memory))
        raise AssertionError(f"{name} is not published")


@asynccontextmanager
async def bed(programs: Path, directory: Path) -> AsyncIterator[Bed]:
    async with AsyncExitStack() as stack:
        cluster = GpuCluster(node_names=["node-1", "node-2"], gpus="H100-80GB:2")
        user = User(await stack.enter_async_context(cluster))
        exporter = stack.enter_context(static_exporter("\n".join(_series_of_others(cluster)) + "\n"))
        others = scraped("others", [_target(exporter)], honor_labels=True)
        ours = await our_targets(cluster)
        # Before anything happens, so that it sees counters increase.
        prometheus = Prometheus(
            programs,
            directory / "honoring",
            scrape_configs=[scraped("ours", ours, honor_labels=_ENDPOINT["honorLabels"]), others],
            rules=RULES,
        )
        not_honoring = Prometheus(
            programs,
            directory / "not-honoring",
            scrape_configs=[
                scraped("scraped", _in_cluster("scraped", ours), honor_labels=False),
                scraped("restored", _in_cluster("restored", ours), honor_labels=False)
                | {"metric_relabel_configs": [_as_configuration(one) for one in yaml.safe_load(_RESTORING)]},
            ],
        )
        for server in (prometheus, not_honoring):
            await stack.enter_async_context(server)
        await _start_workload(user, prometheus)
        yield Bed(user, prometheus, not_honoring)


async def _start_workload(user: User, prometheus: Prometheus) -> None:
    """One claim after the other, so that the first ones share a GPU."""

    async def first_one_is_counted() -> None:
        """A rate needs a series that is there before it increases."""
        assert await prometheus.query(f'gpusharing_agent_prepare_duration_seconds_count{{node="{SHARE.node}"}}')

    await prepare(user)
    for worker in WORKERS:
        await start(user, worker)
        if worker is SHARE:
            await eventually(first_one_is_counted)
    await create(user, WAITING)


def _series_of_others(cluster: GpuCluster) -> Iterator[str]:
    for node, simulated in cluster.simulated.items():
        yield f'node_gpu_hourly_cost{{node="{node}",instance="{node}"}} {PRICES[node]}'
        for index, gpu in enumerate(simulated.gpus()):
            known = f'gpu="{index}",UUID="{gpu.uuid}",Hostname="{node}"'
            for name, value in dcgm_values(node, index).items():
                yield f"{name}{{{known}}} {value}"
                # As of an instance of MIG, with the UUID of its GPU.
                yield f'{name}{{{known},GPU_I_ID="9"}} 0'
    for worker in WORKERS:
        # A claim of two pods.
        for pod in (worker.name, f"{worker.name}-too"):
            labels = f'namespace="{worker.namespace}",pod="{pod}",uid="{pod}",resourceclaim_name="{worker.name}"'
            yield f"kube_pod_resourceclaim_info{{{labels}}} 1"


def dcgm_values(node: str, slot: int) -> Mapping[str, float]:
    """Another one for each GPU."""
    return {"DCGM_FI_DEV_GPU_UTIL": 10 * int(node[-1]) + slot, "DCGM_FI_DEV_FB_USED": 1000 * int(node[-1]) + slot}


async def our_targets(cluster: GpuCluster) -> list[Json]:
    """With the labels that the PodMonitor leads to."""
    programs = [("gpusharing-operator", "node-1", cluster.operator)]
    programs += [("gpusharing-agent", node, agent) for node, agent in cluster.agents.items()]
    return [
        _target(
            await address(program),
            job=job,
            namespace=NAMESPACE,
            pod=f"{job}-{node}",
            container=job.removeprefix("gpusharing-"),
            node=node,
        )
        for job, node, program in programs
    ]


async def address(program: Process) -> str:
    ports: list[int] = []

    async def listens() -> None:
        ports.extend(json.loads(line)["port"] for line in program.log.read_text().splitlines() if '"listening"' in line)
        assert ports

    await eventually(listens)
    return f"127.0.0.1:{ports[-1]}"


def _target(address: str, **labels: str) -> Json:
    return {"targets": [address], "labels": labels}


def _in_cluster(name: str, targets: Sequence[Json]) -> list[Json]:
    return [target | {"labels": target["labels"] | {"cluster": name}} for target in targets]


def scraped(name: str, targets: Sequence[Json], *, honor_labels: bool) -> Json:
    return {"job_name": name, "honor_labels": honor_labels, "static_configs": list(targets)}


def _as_configuration(relabeling: Mapping[str, Any]) -> Json:
    """From the field names of a PodMonitor to those of Prometheus' own file."""
    return {re.sub(r"[A-Z]", lambda one: f"_{one[0].lower()}", name): value for name, value in relabeling.items()}
