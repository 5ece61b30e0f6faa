"""Claims, nvidia-smi, dashboard, `top` and `ui` agree on who has what, on three nodes with all modes in use, while pods
come and go."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from gpusharing.api.names import Sharing
from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.kubeconfig import access
from gpusharing.cli.ui.live import LiveSource
from gpusharing.cli.ui.lookup import LiveLookup
from gpusharing.snapshots.world import World
from gpusharing.ui.pages import Pages
from gpusharing.ui.site import UiSite
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.prometheus import Prometheus
from harness.workloads import claim_spec, pod, policy, template
from monitoring.answers import Answer, Sources
from monitoring.bed import address, our_targets, scraped
from node.user import SHARED, WHOLE, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

NUMBERS: Final = (1, 2, 3)
NODES: Final = tuple(f"node-{number}" for number in NUMBERS)
GPUS: Final = 4
"""Of each node: one for each mode."""
OFFERS: Final = {
    "exclusive": {},
    "timeSlicing": {"maxClients": 4},
    "mps": {"maxClients": 4, "memory": {"default": "8Gi", "max": "16Gi"}, "threads": {"default": 25}},
    "mig": {"profiles": ["1g.10gb"]},
}
CLASSES: Final = {"share": SHARED, "mps": "mps.gpu.nvidia.com", "mig": "mig.nvidia.com", "whole": WHOLE}
MODES: Final = dict(zip(CLASSES, ("TimeSlicing", "MPS", "MIG", "Exclusive"), strict=True))
UTILIZATION: Final = {"share": 20, "mps": 10, "mig": 30, "whole": 70}
"""In percent of a GPU. Drivers do not tell that of MIG instances."""
KNOWN: Final = {
    "nvidia-smi": {"node", "gpu", "mig", "memory"},
    "dashboard": {"node", "gpu", "mig", "device", "mode", "ratio", "memory"},
    "top": {"node", "gpu", "device", "mode", "ratio", "memory"},
    "page": {"node", "gpu", "device", "mode"},
    "page in a file": {"node", "mode", "memory"},
}

_SCRIPT: Final = """
gpu=$(env | sed -n 's/^GPUSHARING_GPU_[0-9A-Z_]*=\\([A-Z]*-.*-.*\\)$/\\1/p')
exec "{directory}/bin/cuda-process" --gpu="$gpu" --memory={memory}M --utilization={utilization}
"""


class Tenant(User):
    """Her pods are named by mode and node: share-1 and mig-3-b."""

    def __init__(self, cluster: GpuCluster, sources: Sources) -> None:
        super().__init__(cluster)
        self.sources = sources
        self._memory: dict[str, int] = {}
        """In halves of a GiB: neighbours differ."""

    async def begin(self, *pods: str) -> None:
        await self.apply(*map(self._pod, pods))

    async def until_running(self, *pods: str) -> None:
        await self.wait(*(f"pod/{name}" for name in pods), "--for=condition=Ready")

    def _pod(self, name: str) -> dict[str, Any]:
        mode, node = name.split("-")[:2]
        self._memory[name] = 1 + len(self._memory) % 15
        directory = self.cluster.simulated[f"node-{node}"].directory
        made = pod(name, template=mode)
        made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": f"node-{node}"}
        made["spec"]["volumes"] = [{"name": "driver", "hostPath": {"path": str(directory)}}]
        (container,) = made["spec"]["containers"]
        container["volumeMounts"] = [{"name": "driver", "mountPath": str(directory)}]
        memory = 512 * self._memory[name]
        script = _SCRIPT.format(directory=directory, memory=memory, utilization=UTILIZATION[mode])
        container["command"] = ["sh", "-c", script]
        return made

    async def agree(self, *pods: str) -> Answer:
        """All sources on these pods, and on no others."""
        agreed: Answer = {}

        async def check() -> None:
            nonlocal agreed
            agreed = await self._expected()
            assert agreed.keys() == set(pods)
            for name, ask in self.sources.others.items():
                assert await ask() == _as_known_by(name, agreed), name
            migs = {one["mig"] for one in agreed.values()} - {""}
            assert await self.sources.migs_of_gpus() == migs
            # By these, other monitoring knows them.
            assert await self.sources.migs_of_slices() == migs
            await self._gpus_agree(agreed)

        await eventually(check)
        return agreed

    async def _expected(self) -> Answer:
        return {name: {**has, "memory": self._memory[name] / 2} for name, has in (await self.sources.api()).items()}

    async def _gpus_agree(self, agreed: Answer) -> None:
        """The dashboard's panels of GPUs with the sums of their claims."""
        promised: Counter[str] = Counter()
        used: Counter[str] = Counter()
        for name, has in agreed.items():
            assert has["mode"] == MODES[name.partition("-")[0]]
            promised[has["gpu"]] += has["ratio"]
            used[has["gpu"]] += UTILIZATION[name.partition("-")[0]] if has["mode"] != Sharing.MIG else 0
        assert await self.sources.by_gpu("Promised, by GPU") == pytest.approx(promised, abs=0.005)
        assert max(promised.values(), default=0) <= 1
        shown = await self.sources.by_gpu("Used, by GPU")
        assert shown == pytest.approx({gpu: percent / 100 for gpu, percent in used.items() if percent}, abs=0.01)

    async def nobody_contradicts(self, agreed: Answer) -> None:
        """What any source says now of these pods, if it knows them."""
        for source, ask in self.sources.others.items():
            for name, told in (await ask()).items():
                if name in agreed:
                    assert told.items() <= agreed[name].items(), (source, name, told, agreed[name])


def _as_known_by(source: str, agreed: Answer) -> Answer:
    return {pod: {field: has[field] for field in KNOWN[source]} for pod, has in agreed.items()}


def _no_world() -> World:
    raise AssertionError("nobody asks for a plan")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenant(toolchain: Path, prometheus: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Tenant]:
    options = ("--taken-wait", "3")
    async with AsyncExitStack() as stack:
        cluster = GpuCluster(node_names=NODES, gpus=f"H100-80GB:{GPUS}", agent_options=options)
        await stack.enter_async_context(cluster)
        configuration = scraped("ours", await our_targets(cluster), honor_labels=True)
        directory = tmp_path_factory.mktemp("prometheus")
        server = await stack.enter_async_context(Prometheus(prometheus, directory, scrape_configs=[configuration]))
        client = stack.enter_context(Client(access(cluster.kubeconfig, None)))
        source = stack.enter_context(LiveSource(client, "default", _no_world, prometheus=server.url))
        site = UiSite(source, LiveLookup(client, source), Pages(cluster="three", root=""))
        tenant = Tenant(cluster, Sources(cluster, server, site))
        await tenant.apply(policy("all-modes", offers=OFFERS))
        await tenant.wait("sharingpolicy/all-modes", "--for=condition=Ready")
        await tenant.apply(*(template(name, claim_spec(class_)) for name, class_ in CLASSES.items()))
        yield tenant


async def test_all_agree_on_who_has_what(tenant: Tenant) -> None:
    stay = [f"{mode}-{node}" for mode in ("share", "mps", "mig") for node in NUMBERS]
    first = ["whole-1", "share-1-b", "mps-2-b", "mig-3-b"]
    await tenant.begin(*stay)
    await tenant.until_running(*stay)
    await tenant.begin(*first)
    await tenant.until_running(*first)
    agreed = await tenant.agree(*stay, *first)
    assert {has["node"] for has in agreed.values()} == set(NODES)
    assert await tenant.sources.shares() == {
        "Exclusive": (1, 2),
        "TimeSlicing": (4, 16),
        "MPS": (4, 16),
        "MIG": (4, 31),
    }
    of_those_who_stay = {pod: agreed[pod] for pod in stay}

    later = ["whole-2", "whole-3", "share-2-c", "mps-1-c", "mig-1-c", "mig-1-d"]
    async with asyncio.TaskGroup() as tasks:
        churn = tasks.create_task(_churn(tenant, first, later))
        while not churn.done():
            await tenant.nobody_contradicts(of_those_who_stay)
    agreed = await tenant.agree(*stay, *later)
    assert {pod: agreed[pod] for pod in stay} == of_those_who_stay

    # Another agent finds everything as it is, without a pod that went meanwhile.
    agent = tenant.cluster.agents["node-1"]
    agent.argv += ["--listen", await address(agent)]
    await agent.kill()
    await tenant.delete("pod", "mig-1-c")
    await agent.start()
    await tenant.agree(*stay, *{*later} - {"mig-1-c"})

    await tenant.delete("pods", "--all")
    await tenant.agree()
    assert {taken for taken, _ in (await tenant.sources.shares()).values()} == {0}


async def _churn(tenant: Tenant, first: Sequence[str], later: Sequence[str]) -> None:
    """Pods of all modes come and go, and some come where others have just been."""
    await tenant.delete("pod", *first)
    between = ("whole-1-x", "share-3-x", "mps-3-x", "mig-2-x")
    await tenant.begin(*between)
    await tenant.until_running(*between)
    await tenant.delete("pod", *between)
    await tenant.begin(*later)
    await tenant.until_running(*later)
