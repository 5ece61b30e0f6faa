"""Two nodes with two GPUs each, all of them in use, each in another mode, and a claim that waits."""

from typing import Any, Final, NamedTuple

from harness.gpu_cluster import GpuCluster
from harness.workloads import SHELL, policy
from node.user import User

GIB: Final = 1024**3
QUOTA: Final = 2
OF_MPS: Final = 20 * GIB


class Worker(NamedTuple):
    """A pod with a claim of the same name."""

    namespace: str
    name: str
    device_class: str
    node: str
    memory: int = 0
    """GiB, that a process in it takes."""
    utilization: int = 0
    """Percent of the GPU."""


SHARE: Final = Worker("red", "red-share", "shares-timeslicing", "node-1", memory=8, utilization=60)
IDLE: Final = Worker("blue", "blue-share", "shares-timeslicing", "node-1")
WHOLE: Final = Worker("blue", "blue-whole", "shares-exclusive", "node-1", memory=40, utilization=30)
MPS: Final = Worker("red", "red-mps", "mps.gpu.nvidia.com", "node-2", memory=4, utilization=20)
MIG: Final = Worker("blue", "blue-mig", "mig.nvidia.com", "node-2", memory=2)
WORKERS: Final = (SHARE, IDLE, WHOLE, MPS, MIG)
WAITING: Final = Worker("red", "red-waits", "shares-timeslicing", "nowhere")

POLICIES: Final = (
    policy(
        "shares",
        nodes={"matchLabels": {"kubernetes.io/hostname": "node-1"}},
        offers={"exclusive": {}, "timeSlicing": {"maxClients": 4}},
        tenants={"namespaces": {"matchLabels": {"team": "colours"}}, "quota": {"timeSlicing": QUOTA}},
        classes={"create": True},
    ),
    policy(
        "parts",
        nodes={"matchLabels": {"kubernetes.io/hostname": "node-2"}},
        offers={
            "mps": {
                "maxClients": 4,
                "memory": {"default": "20Gi", "min": "1Gi", "max": "20Gi"},
                "threads": {"default": 25, "min": 5},
            },
            "mig": {"profiles": ["1g.10gb"]},
        },
    ),
)


async def prepare(user: User) -> None:
    namespaces = {worker.namespace for worker in WORKERS}
    for name in namespaces:
        await user.apply(_object("v1", "Namespace", name, "", labels={"team": "colours"}))
    for name in namespaces:
        await user.wait("serviceaccount/default", f"--namespace={name}", "--for=create")
    await user.apply(*POLICIES)
    await user.wait("sharingpolicy", "--all", "--for=condition=Ready")


async def create(user: User, worker: Worker) -> None:
    await user.apply(_claim(worker), _pod(user.cluster, worker))


async def start(user: User, worker: Worker) -> None:
    await create(user, worker)
    await user.wait(f"pod/{worker.name}", f"--namespace={worker.namespace}", "--for=condition=Ready")


def _claim(worker: Worker) -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": worker.device_class}
    if worker is WAITING:
        exactly["selectors"] = [{"cel": {"expression": "device.attributes['gpu.nvidia.com'].productName == 'none'"}}]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return _object("resource.k8s.io/v1", "ResourceClaim", worker.name, worker.namespace, spec=spec)


def _pod(cluster: GpuCluster, worker: Worker) -> dict[str, Any]:
    """With the simulated driver; its process is the container's only one."""
    node = cluster.simulated.get(worker.node)
    command = ["sleep", "1000000"]
    volumes: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = []
    if node is not None:
        volumes = [{"name": "driver", "hostPath": {"path": str(node.directory)}}]
        mounts = [{"name": "driver", "mountPath": str(node.directory)}]
        if worker.memory:
            program = str(node.directory / "bin/cuda-process")
            command = [program, "--dev=/dev", f"--memory={worker.memory}G", f"--utilization={worker.utilization}"]
    container = {
        "name": "main",
        "image": SHELL,
        "command": command,
        "resources": {"claims": [{"name": "gpu"}]},
        "volumeMounts": mounts,
    }
    spec = {
        "terminationGracePeriodSeconds": 0,
        "resourceClaims": [{"name": "gpu", "resourceClaimName": worker.name}],
        "containers": [container],
        "volumes": volumes,
    }
    return _object("v1", "Pod", worker.name, worker.namespace, spec=spec)


def _object(
    version: str, kind: str, name: str, namespace: str, *, labels: dict[str, str] | None = None, **rest: Any
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": labels or {}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}
