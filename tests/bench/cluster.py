"""What people wait for: a policy that takes effect, a pod that starts."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from bench.figures import Figure, p50, ratio
from gpusharing.api.dra import ResourceSlice
from gpusharing.kube.kinds import RESOURCE_CLAIMS, RESOURCE_SLICES, SHARING_POLICIES, Kind
from gpusharing.kube.transport import Api
from harness.cluster import Cluster
from harness.gpu_cluster import GpuCluster
from harness.workloads import PODS, claim_spec, pod, template, time_slicing

ROUNDS = 20
TEMPLATES = Kind("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", dict[str, Any])


async def policy_to_slices(api: Api) -> list[Figure]:
    """From the create call of a policy to slices that offer it on both GPUs, seen by a watch."""
    times, writes = [], []
    for _ in range(ROUNDS):
        _, version = await api.list(RESOURCE_SLICES)
        began = time.perf_counter()
        await api.create(SHARING_POLICIES, time_slicing("bench"))
        writes.append(time.perf_counter() - began)
        await _until_offered(api, version, "-timeslicing", gpus=2)
        times.append(time.perf_counter() - began)
        _, version = await api.list(RESOURCE_SLICES)
        policy = await api.get(SHARING_POLICIES, "bench")
        await api.delete(SHARING_POLICIES, "bench", uid=policy.metadata.uid)
        await _until_offered(api, version, "", gpus=2)
    return [
        ratio(
            f"policy applied -> slices published, p50 of {ROUNDS}",
            p50(times),
            unit=p50(writes),
            yardstick="creating the policy, p50",
            at_most=50,
        ),
    ]


async def _until_offered(api: Api, version: str, suffix: str, *, gpus: int) -> None:
    wanted = {f"gpu-{slot}{suffix}" for slot in range(gpus)}
    async with asyncio.timeout(30):
        async for _, value in api.watch(RESOURCE_SLICES, version):
            slice_: ResourceSlice = RESOURCE_SLICES.from_json(value)
            # What closes is there as well, also that of the round before.
            wanted -= {device["name"] for device in slice_.spec.get("devices", ()) if not device.get("taints")}
            if not wanted:
                return


async def claim_to_prepared(cluster: GpuCluster, api: Api) -> list[Figure]:
    """From the allocation to what the agent reports in the claim; kubelet and containerd at work in between. Needs
    both GPUs offered as time-sliced."""
    await api.create(TEMPLATES, template("bench", claim_spec("timeslicing.gpu.nvidia.com")), "default")
    times, starts = [], []
    for index in range(ROUNDS):
        _, version = await api.list(RESOURCE_CLAIMS)
        _, pod_version = await api.list(PODS)
        created = pod(f"bench-{index}", template="bench")
        await api.create(PODS, created, "default")
        (allocated, prepared), (running,) = await asyncio.gather(
            _moments(api, RESOURCE_CLAIMS, version, _is_allocated, _is_reported),
            _moments(api, PODS, pod_version, _is_running),
        )
        times.append(prepared - allocated)
        starts.append(running - allocated)
        await cluster.kubectl("delete", "pod", f"bench-{index}", "--wait=true")
    return [
        ratio(
            f"claim allocated -> reported as prepared, p50 of {ROUNDS}",
            p50(times),
            unit=p50(starts),
            yardstick="claim allocated -> pod running, p50",
            at_most=1,
        ),
    ]


async def _moments(api: Api, kind: Kind[Any], version: str, *checks: Callable[[Any], bool]) -> list[float]:
    """When each of the checks was first true of an object, in their order."""
    found: list[float] = []
    async with asyncio.timeout(60):
        async for event, value in api.watch(kind, version):
            if event in {"ADDED", "MODIFIED"} and checks[len(found)](value):
                found.append(time.perf_counter())
                if len(found) == len(checks):
                    break
    return found


def _is_allocated(value: Any) -> bool:
    return bool(value.get("status", {}).get("allocation"))


def _is_reported(value: Any) -> bool:
    return bool(value.get("status", {}).get("devices"))


def _is_running(value: Any) -> bool:
    return bool(value.get("status", {}).get("phase") == "Running")


async def offered(cluster: Cluster, api: Api, *, clients: int) -> None:
    await api.create(SHARING_POLICIES, time_slicing("bench", clients=clients))
    await cluster.kubectl("wait", "sharingpolicy/bench", "--for=condition=Ready", "--timeout=30s")


async def nothing_offered(api: Api) -> None:
    policy = await api.get(SHARING_POLICIES, "bench")
    await api.delete(SHARING_POLICIES, "bench", uid=policy.metadata.uid)
