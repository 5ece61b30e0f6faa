"""Real nodes differ: the same policy and the same pods on nodes with every quirk that the simulation has.

Each node has several quirks, as real ones have, and a GPU for each mode. Programs with CUDA in the pods show that the
limits hold; afterwards the GPUs are as they were.
"""

import functools
import operator
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from gpusharing import sim
from gpusharing.api import names
from gpusharing.api.names import Sharing
from gpusharing.sim import ComputeMode, Quirk, Timeslice
from harness.eventually import eventually
from harness.gpu_cluster import GpuCluster
from harness.mounts import daemons_in
from harness.node import Node
from harness.workloads import claim_spec, pod, policy, template
from node.user import SHARED, WHOLE, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

MODES: Final = (Sharing.EXCLUSIVE, Sharing.TIME_SLICING, Sharing.MPS, Sharing.MIG)


@dataclass(frozen=True)
class Kind:
    quirks: Quirk
    modes: tuple[Sharing, ...] = MODES


KINDS: Final = {
    # By NVIDIA's GPU operator, just booted.
    "operator": Kind(Quirk.OPERATOR_ROOT | Quirk.NO_CDI | Quirk.LATE_UVM | Quirk.MPS_INDEX_ONLY | Quirk.SLOW_NVML),
    # By packages of a distribution.
    "packages": Kind(
        Quirk.HOST_LIBC | Quirk.SELINUX | Quirk.MPS_ECHO_GIB | Quirk.TIMESLICE_UNREADABLE | Quirk.ODD_SAMPLES
    ),
    # A virtual machine with virtual GPUs, which only the host cuts.
    "guest": Kind(Quirk.VGPU_GUEST, modes=MODES[:3]),
    # GPUs that do not say how much memory they have: MPS has none to divide.
    "coherent": Kind(Quirk.MEMORY_INFO_UNSUPPORTED, modes=(Sharing.EXCLUSIVE, Sharing.TIME_SLICING, Sharing.MIG)),
}

POLICY: Final = policy(
    "all-modes",
    offers={
        "exclusive": {},
        "timeSlicing": {"maxClients": 2, "interval": "Long"},
        "mps": {"maxClients": 4, "memory": {"default": "4Gi", "max": "16Gi"}, "threads": {"default": 25}},
        "mig": {"profiles": ["1g.10gb"]},
    },
)
CLASSES: Final = dict(zip(MODES, (WHOLE, SHARED, "mps.gpu.nvidia.com", "mig.nvidia.com"), strict=True))
# How much a program in the pod gets, and how much it does not.
MEMORY: Final = dict(zip(MODES, (("70G", "90G"), ("70G", "90G"), ("4G", "5G"), ("9G", "11G")), strict=True))
UUID: Final = r"$(env | sed -n 's/^GPUSHARING_GPU_[0-9A-Z_]*=\([A-Z]*-.*-.*\)$/\1/p')"


@dataclass(kw_only=True, eq=False, repr=False)
class QuirkyCluster(GpuCluster):
    """Each node is named as its kind."""

    nvidia_tools: Path

    def _simulate(self, node: Node) -> sim.SimNode:
        kind = KINDS[node.name]
        gpus = f"H100-80GB:{len(kind.modes)}"
        simulated = sim.create(node.directory / "gpus", gpus, seed=node.name, quirks=kind.quirks)
        etc, _ = node.cdi_dirs
        shutil.copytree(simulated.cdi, etc, dirs_exist_ok=True)
        toolkit = simulated.directory / "usr/local/nvidia/toolkit"
        toolkit.mkdir(parents=True)
        for program in ("nvidia-ctk", "nvidia-cdi-hook"):
            shutil.copy2(self.nvidia_tools / program, toolkit / program)
        return simulated


class Tenant(User):
    """Has a pod in each mode on one of the nodes."""

    def __init__(self, cluster: GpuCluster, node: str) -> None:
        super().__init__(cluster)
        self.node = cluster.nodes[node]
        self.gpus = cluster.simulated[node]

    def pod(self, mode: Sharing) -> dict[str, Any]:
        made = pod(self.name(mode), template=mode.lower())
        directory = str(self.gpus.directory)
        made["spec"]["nodeSelector"] = {"kubernetes.io/hostname": self.node.name}
        made["spec"]["volumes"] = [{"name": "driver", "hostPath": {"path": directory}}]
        (container,) = made["spec"]["containers"]
        container["volumeMounts"] = [{"name": "driver", "mountPath": directory}]
        return made

    def name(self, mode: Sharing) -> str:
        return f"{self.node.name}-{mode.lower()}"

    async def cuda(self, mode: Sharing, memory: str, *variables: str) -> str:
        """What a CUDA program in the pod says that wants so much."""
        program = self.gpus.programs / "cuda-process"
        command = f"{' '.join(variables)} {program} --gpu={UUID} --memory={memory} --seconds=0.1 2>&1 || true"
        return await self.shell(self.name(mode), command)

    async def is_offered(self, modes: set[Sharing]) -> None:
        async def check() -> None:
            slices = (await self.get("resourceslices", f"--field-selector=spec.nodeName={self.node.name}"))["items"]
            devices = [device["name"] for item in slices for device in item["spec"].get("devices", [])]
            assert {names.sharing_of_device(device) for device in devices} == modes

        await eventually(check)

    async def gpu_of(self, mode: Sharing) -> sim.Gpu:
        """That its pod uses."""
        allocated = (await self.claim_of(await self.get("pod", self.name(mode))))["status"]["allocation"]
        (result,) = allocated["devices"]["results"]
        slot = int(result["device"].split("-")[1])
        return self.gpus.gpus()[slot]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: Path, nvidia_tools: Path) -> AsyncIterator[QuirkyCluster]:
    async with QuirkyCluster(node_names=list(KINDS), nvidia_tools=nvidia_tools) as cluster:
        user = User(cluster)
        await user.apply(POLICY, *(template(mode.lower(), claim_spec(name)) for mode, name in CLASSES.items()))
        yield cluster


async def test_every_quirk_is_met() -> None:
    assert functools.reduce(operator.or_, (kind.quirks for kind in KINDS.values())) == ~Quirk(0)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_pod_in_each_mode(cluster: QuirkyCluster, kind: str) -> None:
    modes = KINDS[kind].modes
    tenant = Tenant(cluster, kind)
    before = tenant.gpus.gpus()
    await tenant.is_offered(set(modes))
    await tenant.apply(*(tenant.pod(mode) for mode in modes))
    await tenant.wait(*(f"pod/{tenant.name(mode)}" for mode in modes), "--for=condition=Ready")
    for mode in modes:
        enough, too_much = MEMORY[mode]
        assert '"memory": ' in await tenant.cuda(mode, enough), mode
        assert "CUDA error 2: " in await tenant.cuda(mode, too_much), mode
    if Sharing.TIME_SLICING in modes:
        assert (await tenant.gpu_of(Sharing.TIME_SLICING)).timeslice is Timeslice.LONG
    if Sharing.MPS in modes:
        await _limits_of_the_daemon_hold(tenant)
    if Sharing.MIG in modes:
        assert [one.profile for one in (await tenant.gpu_of(Sharing.MIG)).gpu_instances] == ["1g.10gb"]

    await tenant.delete("pod", *(tenant.name(mode) for mode in modes))

    async def as_before() -> None:
        assert tenant.gpus.gpus() == before
        assert daemons_in(cluster.mps_directory(tenant.node)) == []
        assert (await tenant.get("nodesharing", kind))["status"]["claims"] == []

    await eventually(as_before)


async def _limits_of_the_daemon_hold(tenant: Tenant) -> None:
    """Also for a client that sets others."""
    assert (await tenant.gpu_of(Sharing.MPS)).compute_mode is ComputeMode.EXCLUSIVE_PROCESS
    assert '"active_thread_percentage": 25.00' in await tenant.cuda(Sharing.MPS, "4G")
    own = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=80G"
    assert '"memory": ' in await tenant.cuda(Sharing.MPS, "16G", own)
    assert "CUDA error 2: " in await tenant.cuda(Sharing.MPS, "17G", own)
