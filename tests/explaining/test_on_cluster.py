"""Findings about GPUs, nodes, policies, running pods, rights and plans, on a real API server with the operator.

Those about pods that wait for devices are in test_on_scheduler.py. What an agent or a kubelet reports is written by the
test: it is not what these findings are about, and test_explain.py in tests/node has a real agent.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from agent.on_cluster import SHARINGS, node_selector
from building import gpu_status
from building.boards import board, profile_names
from explaining.bed import FOREIGN, our_slices, request
from explaining.place import SHARE, Cluster, Place, cluster_with_operator
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.cli import exits
from gpusharing.core.devices import reported_models
from gpusharing.snapshots.world import CLAIMS, CLASSES, EVENTS, NODES, POD_GROUPS, PODS, POLICIES, SLICES
from harness.eventually import eventually
from harness.gpu_cluster import MANIFESTS
from harness.workloads import gpu_config

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

SHARED: Final = "timeslicing.gpu.nvidia.com"
MPS: Final = {"mps": {"maxClients": 4, "memory": {"default": "8Gi", "min": "1Gi"}, "threads": {"default": 25}}}
TOO_MUCH: Final = {"mps": {"maxClients": 2, "memory": {"default": "500Gi"}, "threads": {"default": 10}}}
EARLIER: Final = "2026-11-18T12:00:00Z"


def of_mig_capable(node: str, model: str = "H100-80GB") -> NodeSharingStatus:
    """What an agent reports."""
    one = board(model, 0)
    gpu = gpu_status(0, node=node).model_copy(update={"model": one.product_name, "mig_profiles": profile_names(one)})
    return NodeSharingStatus(observed_generation=1, models=reported_models.described([one]), gpus=(gpu,))


# --------------------------------------------------------------------------------------------------- pods and claims


async def without_rights(place: Place) -> None:
    await place.add_claim("mine", request(SHARED))
    await place.add_pod("asker", "mine")
    plane = place.cluster.control_plane
    await plane.kubectl("create", "rolebinding", "jane", "-n", place.name, "--clusterrole=admin", "--user=jane")


async def not_a_tenant(place: Place) -> None:
    """A class that names no policy leads to the GPUs, and the guard refuses what the scheduler writes."""
    await place.add_schedulable_node()
    await place.add_policy(offers={"exclusive": {}}, tenants={"namespaces": {"matchLabels": {"case": "another"}}})
    await place.until_ready("Accepted", "Accepted")
    for number, spec in enumerate(our_slices(place.name, policy=place.name)):
        await place.add(SLICES, f"{place.name}-{number}", spec=spec)
    expression = f'device.attributes["gpusharing.dev"].?policy.orValue("") == "{place.name}"'
    await place.add(CLASSES, f"any-of-{place.name}", spec={"selectors": [{"cel": {"expression": expression}}]})
    await place.add_claim("mine", request(f"any-of-{place.name}"))
    await place.add_pod("asker", "mine")
    await place.until_refused("ValidatingAdmissionPolicy 'gpusharing-allocation'")


async def shared_by_256_pods(place: Place) -> None:
    """No scheduler looks at them; the controller manager drops reservations of pods that do not exist."""
    await place.add_claim("mine", request(SHARED))
    made = await asyncio.gather(*(place.add_pod(f"p{n}", "mine", schedulerName="nobody") for n in range(256)))
    reserved = [{"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]} for pod in made]
    result = {"request": "gpu", "driver": FOREIGN, "pool": place.name, "device": "d0"}
    allocation = {"devices": {"results": [result]}, "nodeSelector": node_selector(place.name)}
    path = CLAIMS.path(namespace=place.name, name="mine") + "/status"
    await place.cluster.admin.merge(path, {"status": {"allocation": allocation, "reservedFor": reserved}})
    await place.add_schedulable_node()
    await place.add_pod("asker", "mine")
    await place.until_refused("")


async def group_without_its_pods(place: Place) -> None:
    await place.add(POD_GROUPS, "train", spec={"schedulingPolicy": {"gang": {"minCount": 4}}})
    await place.add_claim("mine", request(SHARED))
    await place.add_pod("asker", "mine", schedulingGroup={"podGroupName": "train"})


async def conflicting(place: Place) -> None:
    """The operator denies who comes second."""
    await place.add_node()
    await place.add_policy(offers={"exclusive": {}, "timeSlicing": {"maxClients": 4}})
    await place.add_claim("first", request(SHARED), device=SHARE, since="2026-11-18T12:00:00Z")
    await place.add_claim("mine", request("gpu.nvidia.com"), device="gpu-0", since="2026-11-18T12:00:01Z")
    await place.add_pod("asker", "mine", nodeName=place.name)


async def not_prepared(place: Place) -> None:
    """The kubelet's Event."""
    await place.add_node()
    await place.add_policy()
    await place.hold()
    pod = await place.cluster.admin.call("GET", PODS.path(namespace=place.name, name="asker"))
    about = {"kind": "Pod", "namespace": place.name, "name": "asker", "uid": pod["metadata"]["uid"]}
    message = "driver gpu.nvidia.com is not registered"
    reason = "FailedPrepareDynamicResources"
    await place.add(EVENTS, "failed", involvedObject=about, reason=reason, message=message, type="Warning")


async def with_a_long_interval(place: Place) -> None:
    await place.add_node()
    await place.add_policy()
    config = gpu_config({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}})
    await place.hold(config=[config])


async def shared(place: Place) -> None:
    await place.add_node()
    await place.add_policy()
    await place.hold()


# ------------------------------------------------------------------------------------------------------ GPUs and nodes


async def node_alone(place: Place) -> None:
    await place.add(NODES, place.name)


async def node_that_is_not_ready(place: Place) -> None:
    """The kubelet's report."""
    condition = {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "no network"}
    await place.add(NODES, place.name, status={"conditions": [condition]})


async def agent_that_is_not_ready(place: Place) -> None:
    await place.add_node()
    condition = {"type": "Ready", "status": "False", "reason": "DriverDown", "message": "no driver"}
    status = {"conditions": [condition | {"lastTransitionTime": EARLIER}]}
    await place.cluster.admin.merge(f"{SHARINGS}/{place.name}/status", {"status": status})


async def unhealthy(place: Place) -> None:
    await place.add_node()
    await place.they.fails(place.name, "fell off the bus")


async def too_little_memory(place: Place) -> None:
    await place.add_node(report=of_mig_capable(place.name))
    await place.add_policy(offers={"exclusive": {}, **TOO_MUCH})


async def mig_on_ampere(place: Place) -> None:
    await place.add_node(report=of_mig_capable(place.name, "A100-80GB"))
    await place.add_policy(offers={"exclusive": {}, "mig": {"profiles": ["1g.10gb"]}})


async def closing(place: Place) -> None:
    await place.add_node()
    await place.add_policy()
    sharing = await place.cluster.admin.call("GET", f"{SHARINGS}/{place.name}")
    gpus = sharing["status"]["gpus"]
    gpus[0]["published"] = [{"device": "gpu-0-mps", "closingSince": EARLIER}]
    await place.cluster.admin.merge(f"{SHARINGS}/{place.name}/status", {"status": {"gpus": gpus}})


async def unselected(place: Place) -> None:
    await place.add_node()


# ----------------------------------------------------------------------------------------------------------- policies


async def selector_that_is_no_cel(place: Place) -> None:
    await place.add_policy(gpus={"selectors": [{"cel": {"expression": "nonsense"}}]})


async def paused(place: Place) -> None:
    await place.add_node()
    await place.add_policy(rollout={"paused": True})


async def without_nodes(place: Place) -> None:
    await place.add_policy()


async def late_agent(place: Place) -> None:
    await place.add_node()
    await place.add_policy()


async def outranked(place: Place) -> None:
    await place.add_node()
    await place.add_policy(f"{place.name}-rival", priority=1)
    await place.add_policy()


async def without_the_guard(place: Place) -> None:
    plane = place.cluster.control_plane
    await plane.kubectl("delete", "validatingadmissionpolicy", "gpusharing-allocation")
    await place.add_node()
    await place.add_policy(tenants={"namespaces": {"matchLabels": {"case": place.name}}})


# -------------------------------------------------------------------------------------------------------------- plans


async def with_a_pod(place: Place) -> None:
    """It has a share, and the policy is to offer MPS only."""
    await place.add_node()
    await place.add_policy()
    for number, spec in enumerate(our_slices(place.name, policy=place.name)):
        await place.add(SLICES, f"{place.name}-{number}", spec=spec)
    await place.add_claim("mine", request(f"{place.name}-timeslicing"), device=SHARE)
    await place.add_pod("asker", "mine", nodeName=place.name)
    await place.until_ready("Ready", "WaitingForNodes")
    await place.they.agent_acts(place.name)
    await place.until_ready("Ready", "Ready")
    place.write(offers=MPS, rollout={"disruption": "Evict"})


async def rollout_that_stopped(place: Place) -> None:
    """Two nodes, of which one fails, and no more than one may."""
    nodes = (place.name, f"{place.name}-b")
    rollout = {"disruption": "Evict", "maxUnavailable": 1}
    for name in nodes:
        await place.add_node(name)
    await place.add_claim("mine", request("gpu.nvidia.com"), device="gpu-0")
    await place.add_claim("other", request("gpu.nvidia.com"), node=nodes[1], device="gpu-0")
    await place.add_policy(offers={"exclusive": {}}, rollout=rollout)
    await place.until_ready("Ready", "WaitingForNodes")
    for name in nodes:
        await place.they.agent_acts(name)
    await place.until_ready("Ready", "Ready")
    offers = {"exclusive": None, **MPS}
    await place.they.edit_policy(place.name, offers=offers)

    async def evicts() -> None:
        assert place.name in await place.they.evicting()

    await eventually(evicts)
    await place.they.fails(place.name, "fell off the bus")
    await place.until_ready("Progressing", "Stopped")
    place.write(offers=MPS, rollout=rollout)


async def policy_of_a_newer_version(place: Place) -> None:
    """Its CRD knows more than this command does."""
    plane = place.cluster.control_plane
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/rollout/properties/disruption/enum/-"
    patch = json.dumps([{"op": "add", "path": path, "value": "Tomorrow"}])
    await plane.kubectl("patch", "crd", "sharingpolicies.gpusharing.dev", "--type=json", f"--patch={patch}")

    async def is_accepted() -> None:
        spec = {"offers": MPS, "nodes": place.selected, "rollout": {"disruption": "Tomorrow"}}
        await place.add(POLICIES, place.name, spec=spec)

    await eventually(is_accepted)
    place.write(f"{place.name}-b", offers=MPS)


async def delete_the_policy(place: Place) -> None:
    await place.cluster.admin.call("DELETE", POLICIES.path(name=place.name), absent=True)


async def apply_the_guard(place: Place) -> None:
    await place.cluster.control_plane.kubectl("apply", "--filename", MANIFESTS / "guards.yaml")


# -------------------------------------------------------------------------------------------------------------- table


@dataclass(frozen=True)
class Case:
    bring: Callable[[Place], Awaitable[None]]
    command: str
    sentence: str
    """`{n}` is the name of namespace, node and policy."""
    exit: int = exits.WAITS
    user: str = ""
    """Who asks; otherwise the admin does."""
    operator_is_stopped: bool = False
    """Before anything is made."""
    undo: Callable[[Place], Awaitable[None]] | None = None
    """What other cases would see."""


POD: Final = "explain pod asker -n {n}"
GPU: Final = "explain gpu {n}/gpu-0"
NODE: Final = "explain node {n}"
POLICY: Final = "explain policy {n}"
PLAN: Final = "plan -f {file}"

CASES: Final[Mapping[str, Case]] = {
    "GSH0101": Case(
        without_rights,
        POD,
        user="jane",
        sentence="resourceslices may not be read, so gpusharing cannot look for devices by itself.",
    ),
    "GSH0215": Case(
        not_a_tenant,
        POD,
        "Namespace {n} is no tenant of SharingPolicy {n} (case=another), which reserves the devices.",
        exits.NEVER,
    ),
    "GSH0222": Case(
        shared_by_256_pods, POD, "Claim {n}/mine is reserved for 256 pods, which is the most that Kubernetes allows."
    ),
    "GSH0225": Case(
        group_without_its_pods,
        POD,
        "The pod is in PodGroup train, of which no pod starts before all can: it needs 4 pods, and 1 exist.",
    ),
    "GSH0301": Case(
        conflicting,
        POD,
        "The operator denied claim mine on node {n}: device {n}/gpu-0 conflicts with {n}/gpu-0-timeslicing",
        exits.NEVER,
    ),
    "GSH0302": Case(
        not_prepared, POD, "Node {n} could not prepare the devices: driver gpu.nvidia.com is not registered"
    ),
    "GSH0303": Case(
        with_a_long_interval,
        POD,
        "Claim mine: interval Long of the claim: clients of a GPU share one interval, and policy {n} sets Default.",
    ),
    "GSH0305": Case(shared, POD, "The agent of node {n} has not prepared claim mine."),
    "GSH0401": Case(node_alone, NODE, "Node {n} has no NodeSharing: no agent has run there.", exits.NEVER),
    "GSH0402": Case(agent_that_is_not_ready, NODE, "The agent of node {n} is not ready (DriverDown): no driver"),
    "GSH0403": Case(unhealthy, GPU, "gpu-0 on node {n} is not healthy (GpuLost): fell off the bus", exits.NEVER),
    "GSH0404": Case(
        too_little_memory,
        GPU,
        "gpu-0 does not offer MPS (MemoryTooSmall): offers.mps.memory.default: 500Gi is more than the 81559Mi",
    ),
    "GSH0405": Case(
        closing,
        GPU,
        "gpu-0-mps takes no new claim since 2026-11-18T12:00:00Z; it is withdrawn when nobody can be using it.",
        exits.OK,
    ),
    "GSH0406": Case(unselected, GPU, "No SharingPolicy selects gpu-0: it is offered as it was found.", exits.OK),
    "GSH0407": Case(
        unselected,
        GPU,
        "The operator has not decided on gpu-0: its devices have taint gpusharing.dev/unconfigured.",
        operator_is_stopped=True,
    ),
    "GSH0408": Case(node_that_is_not_ready, NODE, "Kubernetes reports node {n} as not ready.", exits.NEVER),
    "GSH0409": Case(
        mig_on_ampere,
        POLICY,
        "MIG is not offered on 1 GPU (NVIDIA A100-SXM4-80GB) of {n}: MIG mode is off",
    ),
    "GSH0501": Case(
        selector_that_is_no_cel,
        POLICY,
        "The operator does not accept the policy (InvalidSelector): spec.gpus.selectors[0].cel.expression is not valid",
        exits.NEVER,
    ),
    "GSH0502": Case(paused, POLICY, "The policy is suspended (Paused): its GPUs stay unchanged."),
    "GSH0503": Case(
        without_nodes, POLICY, "The policy has no GPUs (NoMatchingNodes): no node with GPUs matches spec.nodes"
    ),
    "GSH0504": Case(late_agent, POLICY, "Node {n} (WaitingForAgent): the agent has not applied the change yet"),
    "GSH0505": Case(outranked, POLICY, "lost 1 GPU: GPU-{n}-0 of {n} to {n}-rival (LowerPriority)"),
    "GSH0506": Case(
        too_little_memory,
        POLICY,
        "MemoryTooSmall: some offers cannot be provided on some GPUs: GPU-{n}-0 of {n}: offers.mps.memory.default",
    ),
    "GSH0507": Case(
        without_nodes,
        POLICY,
        "The status describes generation none, and the policy has generation 1.",
        operator_is_stopped=True,
    ),
    "GSH0508": Case(
        without_the_guard,
        POLICY,
        "The policy is not ready (WaitingForGuards): the admission policies do not hold for this policy's tenants",
        undo=apply_the_guard,
    ),
    "GSH0705": Case(with_a_pod, PLAN, "Pods of 1 claim ({n}/mine) on {n}/gpu-0 would be evicted.", exits.OK),
    "GSH0706": Case(
        with_a_pod,
        PLAN,
        "No node would have {n}-timeslicing any more, even if it was idle; in use by 1 claim, such as {n}/",
        exits.OK,
    ),
    "GSH0707": Case(
        rollout_that_stopped,
        PLAN,
        "Failing nodes use up rollout.maxUnavailable, so {n}-b would stay unchanged.",
        exits.OK,
    ),
    "GSH0708": Case(
        policy_of_a_newer_version,
        PLAN,
        "SharingPolicy/{n} cannot be read by this version of the command, and are left out of the plan.",
        exits.OK,
        undo=delete_the_policy,
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(toolchain: Path) -> AsyncIterator[Cluster]:
    async with cluster_with_operator() as cluster:
        yield cluster


@pytest.mark.parametrize("code", CASES)
async def test_a_finding_is_brought_about(cluster: Cluster, tmp_path: Path, code: str) -> None:
    case = CASES[code]
    place = Place(code.lower(), cluster, tmp_path)
    await place.make_namespace()
    kubeconfig = await cluster.control_plane.user_kubeconfig(case.user) if case.user else None
    sentence = case.sentence.format(n=place.name)

    async def is_found() -> None:
        status, found = place.run(case.command, kubeconfig=kubeconfig)
        assert [one for one in found.sentences(code) if one.startswith(sentence)], found["findings"]
        assert status == case.exit

    try:
        with cluster.stopped_operator() if case.operator_is_stopped else nullcontext():
            await case.bring(place)
            await eventually(is_found)
    finally:
        if case.undo is not None:
            await case.undo(place)
