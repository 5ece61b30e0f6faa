"""Who has what: claims, nvidia-smi on the node, metrics, `top` and the page of `ui` agree while pods come and go."""

import json
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.kubeconfig import access
from gpusharing.cli.ui.live import LiveSource
from gpusharing.cli.ui.lookup import LiveLookup
from gpusharing.core.quantities import mebibytes
from gpusharing.snapshots.world import World
from gpusharing.ui.exchange import Request
from gpusharing.ui.pages import Pages
from gpusharing.ui.site import UiSite
from harness.commands import run
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.loopback import free_ports, own_address
from harness.workloads import claim_spec, pod, policy, template
from node.user import SHARED, WHOLE, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

OFFERS: Final = {
    "exclusive": {},
    "timeSlicing": {"maxClients": 4},
    "mps": {"maxClients": 4, "memory": {"default": "8Gi", "max": "16Gi"}, "threads": {"default": 25}},
    "mig": {"profiles": ["1g.10gb"]},
}
CLASSES: Final = {"share": SHARED, "mps": "mps.gpu.nvidia.com", "mig": "mig.nvidia.com", "whole": WHOLE}
MIB: Final = 1024**2

_SCRIPT: Final = """
gpu=$(env | sed -n 's/^GPUSHARING_GPU_[0-9A-Z_]*=\\([A-Z]*-.*-.*\\)$/\\1/p')
exec "{directory}/bin/cuda-process" --gpu="$gpu" --memory={memory}M --utilization={utilization}
"""


class Has(NamedTuple):
    """What a pod has and uses, by whatever tells it."""

    gpu: str
    device: str
    memory: int


class Tenant(User):
    """She knows her pods by their memory: each has as many MiB as nobody else."""

    def __init__(self, cluster: GpuCluster, metrics: str, site: UiSite) -> None:
        super().__init__(cluster)
        self._metrics = metrics
        self._site = site
        self.memory: dict[str, int] = {}

    async def begin(self, *pods: str, utilization: int = 0) -> None:
        """Their names begin with the mode."""
        for name in pods:
            self.memory[name] = 64 + len(self.memory)
            directory = self.cluster.sim_node.directory
            made = pod(name, template=name.partition("-")[0])
            made["spec"]["volumes"] = [{"name": "driver", "hostPath": {"path": str(directory)}}]
            (container,) = made["spec"]["containers"]
            container["volumeMounts"] = [{"name": "driver", "mountPath": str(directory)}]
            script = _SCRIPT.format(directory=directory, memory=self.memory[name], utilization=utilization)
            container["command"] = ["sh", "-c", script]
            await self.apply(made)

    async def page(self, name: str) -> list[Sample]:
        async with aiohttp.ClientSession() as session, session.get(self._metrics) as answer:
            families = text_string_to_metric_families(await answer.text())
        return [sample for family in families for sample in family.samples if sample.name == name]

    async def by_claims(self) -> dict[str, Has]:
        """As the API has them, by pod."""
        gpus = {gpu["slot"]: gpu["uuid"] for gpu in (await self.get("nodesharing", "node-1"))["status"]["gpus"]}
        found = {}
        for claim in (await self.get("resourceclaims"))["items"]:
            (user,) = claim["status"]["reservedFor"]
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            slot = names.slot_of_device(result["device"])
            found[user["name"]] = Has(gpus[slot], result["device"], self.memory[user["name"]])
        return found

    async def by_smi(self) -> Counter[tuple[str, int]]:
        """GPU and MiB of each program, without MPS servers."""
        smi = str(self.cluster.sim_node.nvidia_smi)
        told = await run([smi, "--query-compute-apps=gpu_uuid,used_memory", "--format=csv,noheader,nounits"])
        rows = [(uuid, int(memory)) for uuid, memory in (line.split(", ") for line in told.splitlines())]
        return Counter(row for row in rows if row[1] >= 64)

    async def by_metrics(self, claims: Mapping[str, str]) -> dict[str, Has]:
        """By pod; `claims`: whose pods they are."""
        samples = await self.page("gpusharing_claim_memory_used_bytes")
        return {
            claims.get(sample.labels["claim_uid"], sample.labels["claim"]): Has(
                sample.labels["gpu_uuid"], sample.labels["device"], int(sample.value / MIB)
            )
            for sample in samples
        }

    async def agree(self, *pods: str) -> None:
        """All of them on who has what: these pods and no others."""

        async def check() -> None:
            listed = (await self.get("resourceclaims"))["items"]
            owners = {one["metadata"]["uid"]: one["metadata"]["ownerReferences"][0]["name"] for one in listed}
            claims = await self.by_claims()
            assert claims.keys() == set(pods)
            assert await self.by_metrics(owners) == claims
            assert await self.by_smi() == Counter((has.gpu, has.memory) for has in claims.values())
            await self._top_agrees(claims)
            self._page_agrees(claims)
            await self._infos_agree(owners, claims)
            await self._ratios_agree(owners)

        await eventually(check)

    async def _top_agrees(self, claims: Mapping[str, Has]) -> None:
        """Also with the agent about ratios."""
        command = [sys.executable, "-m", "gpusharing", "top", "-o", "json"]
        found = json.loads(await run([*command, "--kubeconfig", self.cluster.kubeconfig]))
        holders = [(gpu["uuid"], one) for node in found["nodes"] for gpu in node["gpus"] for one in gpu["holders"]]
        assert {" ".join(one["pods"]): (gpu, one["device"]) for gpu, one in holders} == {
            name: has[:2] for name, has in claims.items()
        }
        samples = await self.page("gpusharing_claim_share_ratio")
        ratios = {sample.labels["claim_uid"]: sample.value for sample in samples}
        assert {one["uid"]: one["ratio"] for _, one in holders} == pytest.approx(ratios, abs=0.0001)

    def _page_agrees(self, claims: Mapping[str, Has]) -> None:
        """It was opened before the first pod came, and has watched since then."""
        page = self._site.answer(Request(path=("",))).body
        assert isinstance(page, bytes)
        rows = re.findall(r'<tr id="gpu-node-1-(\d+)".*?class="who"(.*?)</tr>', page.decode(), re.DOTALL)
        shown = {pod: int(slot) for slot, users in rows for pod in re.findall(r"default/([\w-]+)", users)}
        assert shown == {name: names.slot_of_device(has.device) for name, has in claims.items()}

    async def _infos_agree(self, owners: Mapping[str, str], claims: Mapping[str, Has]) -> None:
        instances = {
            one.uuid: gpu.uuid
            for gpu in self.cluster.sim_node.gpus()
            for made in gpu.gpu_instances
            for one in made.compute_instances
        }
        infos = [sample.labels for sample in await self.page("gpusharing_claim_device_info")]
        assert {owners[one["claim_uid"]]: (one["gpu_uuid"], one["device"]) for one in infos} == {
            name: has[:2] for name, has in claims.items()
        }
        assert {one["mig_uuid"]: one["gpu_uuid"] for one in infos if one["mig_uuid"]} == instances
        assert {(one["node"], one["namespace"], one["pool"], one["policy"]) for one in infos} <= {
            ("node-1", "default", "node-1", "all-ways")
        }
        for one in infos:
            assert one["sharing"] == names.sharing_of_device(one["device"])
            assert one["profile"] == ("1g.10gb" if one["mig_uuid"] else "")

    async def _ratios_agree(self, owners: Mapping[str, str]) -> None:
        (gpu, *_) = (await self.get("nodesharing", "node-1"))["status"]["gpus"]
        # An H100 has eight memory slices.
        expected = {"share": 1 / 4, "mps": 8192 / mebibytes(gpu["usableMemory"]), "mig": 1 / 8, "whole": 1}
        samples = await self.page("gpusharing_claim_share_ratio")
        ratios = {owners[sample.labels["claim_uid"]]: sample.value for sample in samples}
        assert ratios == {name: pytest.approx(expected[name.partition("-")[0]]) for name in owners.values()}
        by_gpu: Counter[str] = Counter()
        for sample in samples:
            by_gpu[sample.labels["gpu_uuid"]] += sample.value  # type: ignore[assignment]
        assert all(ratio <= 1 for ratio in by_gpu.values())

    async def shares(self) -> dict[str, tuple[float, float]]:
        """Taken and free on the node, by mode."""
        told: Counter[tuple[str, str]] = Counter()
        for sample in await self.page("gpusharing_gpu_shares"):
            told[sample.labels["sharing"], sample.labels["state"]] += int(sample.value)
        return {mode: (told[mode, "taken"], told[mode, "free"]) for mode in Sharing}


def _no_world() -> World:
    raise AssertionError("nobody asks for a plan")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenant(toolchain: Path) -> AsyncIterator[Tenant]:
    address = own_address()
    listen = f"{address}:{free_ports(address, 1)[0]}"
    options = ("--listen", listen, "--taken-wait", "3")
    async with GpuCluster(node_names=["node-1"], gpus="H100-80GB:4", agent_options=options) as cluster:
        with Client(access(cluster.kubeconfig, None)) as client, LiveSource(client, "default", _no_world) as source:
            site = UiSite(source, LiveLookup(client, source), Pages(cluster="node-1", root=""))
            tenant = Tenant(cluster, f"http://{listen}/metrics", site)
            await tenant.apply(policy("all-ways", offers=OFFERS))
            await tenant.wait("sharingpolicy/all-ways", "--for=condition=Ready")
            await tenant.apply(*(template(name, claim_spec(class_)) for name, class_ in CLASSES.items()))
            yield tenant


async def test_everybody_agrees_on_who_has_what(tenant: Tenant) -> None:
    await tenant.begin("share-a", "share-b", utilization=20)
    await tenant.running(2)
    await tenant.begin("mps-a", "mps-b", utilization=10)
    await tenant.running(4)
    await tenant.begin("mig-a", "mig-b")
    await tenant.running(6)
    await tenant.begin("whole-a", utilization=70)
    await tenant.running(7)
    await tenant.agree("share-a", "share-b", "mps-a", "mps-b", "mig-a", "mig-b", "whole-a")
    assert await tenant.shares() == {"Exclusive": (1, 0), "TimeSlicing": (2, 2), "MPS": (2, 2), "MIG": (2, 5)}
    used = await tenant.page("gpusharing_claim_sm_utilization_ratio")
    modes = Counter((names.sharing_of_device(one.labels["device"]), round(one.value, 2)) for one in used)
    # Drivers do not know it of MIG instances.
    assert modes == {("TimeSlicing", 0.2): 2, ("MPS", 0.1): 2, ("Exclusive", 0.7): 1}

    await tenant.delete("pod", "share-a", "mps-b", "mig-a", "whole-a")
    await tenant.begin("share-c", "mig-c")
    await tenant.running(5)
    await tenant.agree("share-b", "share-c", "mps-a", "mig-b", "mig-c")
    await _slices_have_uuids(tenant)

    # Another agent finds everything as it is.
    await tenant.cluster.agent.kill()
    await tenant.delete("pod", "share-b")
    await tenant.cluster.agent.start()
    await tenant.begin("whole-b")
    await tenant.running(5)
    await tenant.agree("share-c", "mps-a", "mig-b", "mig-c", "whole-b")

    await tenant.delete("pods", "--all")
    await tenant.agree()
    assert await tenant.shares() == {"Exclusive": (0, 4), "TimeSlicing": (0, 16), "MPS": (0, 16), "MIG": (0, 28)}
    assert await tenant.page("gpusharing_claim_device_info") == []
    await _slices_have_uuids(tenant)


async def _slices_have_uuids(tenant: Tenant) -> None:
    """Of the instances that there are, and of no others: monitoring knows them by these."""

    async def check() -> None:
        slices = (await tenant.get("resourceslices"))["items"]
        devices = [device for one in slices for device in one["spec"].get("devices", [])]
        told = {
            device["name"]: device["attributes"]["uuid"]["string"]
            for device in devices
            if device["attributes"]["type"]["string"] == "mig" and "uuid" in device["attributes"]
        }
        infos = [sample.labels for sample in await tenant.page("gpusharing_claim_device_info")]
        assert told == {one["device"]: one["mig_uuid"] for one in infos if one["mig_uuid"]}

    await eventually(check)
