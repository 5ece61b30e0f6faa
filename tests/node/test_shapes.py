"""Claims of every shape: for init containers and sidecars, of several drivers, for groups of pods, and to look only."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final, Self

import pytest
import pytest_asyncio

from agent.samples import prepared_claim, prepared_device
from gpusharing.agent.claims.reading import ClaimRef
from gpusharing.agent.kubelet.health_stream import HealthService
from gpusharing.agent.kubelet.server import PluginServer
from gpusharing.agent.kubelet.service import DraService
from gpusharing.agent.state.models import PreparedClaim
from gpusharing.sim import Timeslice
from harness.gpu_cluster import GpuCluster
from harness.workloads import claim, claim_spec, gpu_config, pod, template
from node.user import WHOLE, User

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.asyncio(loop_scope="module")]

GATES: Final = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
LONG: Final = gpu_config({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}})
METADATA: Final = "/var/run/kubernetes.io/dra-device-attributes"
OTHER: Final = "nic.example.com"
WAIT: Final = "while true; do sleep 1; done"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def user(toolchain: Any) -> AsyncIterator[User]:
    async with GpuCluster(
        node_names=["node-1"],
        gpus="H100-80GB:2",
        feature_gates=GATES,
        runtime_config="scheduling.k8s.io/v1beta1=true",
    ) as cluster:
        user = User(cluster)
        await user.published("gpu-0", "gpu-1")
        yield user


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_is_left(user: User) -> AsyncIterator[None]:
    before = user.cluster.sim_node.gpus()
    yield
    await user.delete("pods", "--all", "--all-namespaces")
    await user.delete("resourceclaims", "--all", "--all-namespaces")
    await user.nothing_prepared()
    assert user.cluster.sim_node.gpus() == before


async def gpu_of(user: User, name: str, container: str = "main-0") -> str:
    """By its environment."""
    told = (await user.shell(name, "env | grep ^GPUSHARING_GPU_._*= || env | grep ^GPUSHARING_GPU_", container)).split()
    (uuid,) = {line.partition("=")[2] for line in told if "=GPU-" in line}
    return uuid


async def metadata(user: User, name: str, path: str, container: str = "main-0") -> list[Any]:
    text = await user.shell(name, f"cat {METADATA}/{path}/gpu.nvidia.com-metadata.json", container)
    return [json.loads(line) for line in text.splitlines()]


def container_of(name: str, command: str, **more: Any) -> dict[str, Any]:
    (made,) = pod("any", template="any")["spec"]["containers"]
    changed: dict[str, Any] = made | {"name": name, "command": ["sh", "-c", command]} | more
    return changed


async def test_init_containers_and_sidecars_have_what_the_others_have(user: User) -> None:
    made = pod("several", template="whole")
    made["spec"]["volumes"] = [{"name": "told", "emptyDir": {}}]
    told = {"volumeMounts": [{"name": "told", "mountPath": "/told"}]}
    made["spec"]["initContainers"] = [
        container_of("first", "env | grep ^GPUSHARING_ | sort > /told/first", **told),
        container_of(
            "sidecar", f"env | grep ^GPUSHARING_ | sort > /told/sidecar; {WAIT}", restartPolicy="Always", **told
        ),
    ]
    made["spec"]["containers"][0] |= told
    await user.apply(template("whole", claim_spec(WHOLE, config=[LONG])), made)
    await user.wait("pod/several", "--for=condition=Ready")
    seen = await user.shell("several", "env | grep ^GPUSHARING_ | sort")
    assert "INTERVAL=Long" in seen
    for name in ("first", "sidecar"):
        assert await user.shell("several", f"cat /told/{name}") == seen

    uuid = await gpu_of(user, "several")
    for container in ("main-0", "sidecar"):
        newest, *_ = await metadata(user, "several", "resourceclaimtemplates/gpu/gpu", container)
        assert newest["apiVersion"] == "metadata.resource.k8s.io/v1beta1"
        assert newest["podClaimName"] == "gpu"
        (device,) = newest["requests"][0]["devices"]
        assert device["attributes"]["uuid"] == {"string": uuid}
        assert (device["driver"], device["pool"]) == ("gpu.nvidia.com", "node-1")


class OtherDriver:
    """Of another kind of device, on the same node."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.prepared: list[str] = []
        self._server = PluginServer(
            DraService(self._prepare, self._unprepare),
            HealthService(list, lambda _: ()),
            kubelet_root=user.cluster.node.kubelet_root,
            driver=OTHER,
        )

    async def __aenter__(self) -> Self:
        await self._server.renew()
        pool = {"name": "nics", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": OTHER, "nodeName": "node-1", "pool": pool, "devices": [{"name": "nic-0"}]}
        selectors = [{"cel": {"expression": f'device.driver == "{OTHER}"'}}]
        api = {"apiVersion": "resource.k8s.io/v1"}
        await self.user.apply(
            api | {"kind": "ResourceSlice", "metadata": {"name": "nics"}, "spec": spec},
            api | {"kind": "DeviceClass", "metadata": {"name": OTHER}, "spec": {"selectors": selectors}},
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.__aexit__(None, None, None)

    async def _prepare(self, ref: ClaimRef, _: float) -> PreparedClaim:
        self.prepared.append(ref.name)
        device = prepared_device("nic-0", request="nic").model_copy(update={"pool": "nics", "cdi_devices": ()})
        return prepared_claim(ref.name, device)

    async def _unprepare(self, ref: ClaimRef, _: float) -> None:
        self.prepared.remove(ref.name)


async def test_several_drivers_and_requests_in_one_claim(user: User) -> None:
    requests = [
        {"name": "nic", "exactly": {"deviceClassName": OTHER}},
        {"name": "gpus", "exactly": {"deviceClassName": WHOLE, "count": 2}},
    ]
    nvlink = {"requests": ["gpus"], "matchAttribute": "gpu.nvidia.com/productName"}
    config = [LONG | {"requests": ["gpus"]}, {"opaque": {"driver": OTHER, "parameters": {"mtu": 9000}}}]
    async with OtherDriver(user) as other:
        await user.apply(
            claim("both", {"devices": {"requests": requests, "constraints": [nvlink], "config": config}}),
            pod("both", claim="both"),
        )
        await user.wait("pod/both", "--for=condition=Ready")
        assert other.prepared == ["both"]
        assert {gpu.timeslice for gpu in user.cluster.sim_node.gpus()} == {Timeslice.LONG}
        newest, *_ = await metadata(user, "both", "resourceclaims/both/gpus")
        told = [device["name"] for device in newest["requests"][0]["devices"]]
        assert told == ["gpu-0", "gpu-1"]
        await user.delete("pod", "both")
        await user.delete("resourceclaim", "both")
        await user.nothing_prepared()
        assert other.prepared == []
    await user.delete("resourceslice", "nics", "--ignore-not-found")


async def test_who_only_looks_sees_a_gpu_that_is_used_and_changes_nothing(user: User) -> None:
    await user.apply(template("whole", claim_spec(WHOLE, config=[LONG])), pod("works", template="whole"))
    await user.wait("pod/works", "--for=condition=Ready")
    uuid = await gpu_of(user, "works")
    during = user.cluster.sim_node.gpus()

    label = "resource.kubernetes.io/admin-access"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "watchers", "labels": {label: "true"}}}
    await user.apply(namespace)
    await user.cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--namespace=watchers")
    exactly = {"deviceClassName": WHOLE, "allocationMode": "All", "adminAccess": True}
    looking = claim("look", {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})
    watcher = pod("watcher", claim="look")
    for one in (looking, watcher):
        one["metadata"]["namespace"] = "watchers"
    await user.apply(looking, watcher)
    await user.wait("pod/watcher", "--for=condition=Ready", "--namespace=watchers")
    seen = await user.cluster.kubectl("exec", "watcher", "--namespace=watchers", "--", "ls", "/dev")
    minors = [f"nvidia{gpu.minor}" for gpu in during]
    assert [name for name in seen.split() if name in minors] == minors
    assert user.cluster.sim_node.gpus() == during

    await user.delete("pod", "watcher", "--namespace=watchers")
    await user.delete("resourceclaim", "look", "--namespace=watchers")
    assert user.cluster.sim_node.gpus() == during
    assert await gpu_of(user, "works") == uuid


async def test_a_group_of_pods_has_one_claim(user: User) -> None:
    shared = {"name": "gpu", "resourceClaimTemplateName": "whole"}
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "gang", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": [shared]},
    }
    members = [pod(name, template="whole") for name in ("left", "right")]
    for member in members:
        member["spec"]["schedulingGroup"] = {"podGroupName": "gang"}
    await user.apply(template("whole", claim_spec(WHOLE, config=[LONG])), group, *members)
    await user.running(2)
    assert await gpu_of(user, "left") == await gpu_of(user, "right")
    (only,) = (await user.get("resourceclaims"))["items"]
    assert [one["resource"] for one in only["status"]["reservedFor"]] == ["podgroups"]
    await user.delete("pod", "left")
    assert sorted(gpu.timeslice or 0 for gpu in user.cluster.sim_node.gpus()) == [Timeslice.DEFAULT, Timeslice.LONG]
    await user.delete("pod", "right")
    await user.delete("podgroup", "gang")
