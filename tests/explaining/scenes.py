"""Clusters in which something is to be explained, as snapshots: what the pages and the screens show."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from building.boards import board
from explaining.bed import ALL_MODES, DRIVER, Json, our_slices, request
from gpusharing.api import names
from gpusharing.api.meta import Condition
from gpusharing.api.sharing.device_settings import DeviceSettings, SettingSources
from gpusharing.api.sharing.gpu_status import GpuStatus, PublishedDevice
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import AllocatedDevice, ClaimSharing, GpuSharing, NodeSharingSpec, PolicyReference
from gpusharing.api.sharing.node_status import ClaimStatus, NodeSharingStatus
from gpusharing.api.sharing.offers import Interval, Offers, TimeSlicingOffer
from gpusharing.core.devices.reported_models import described
from gpusharing.core.publishing.attributes import board_attributes
from gpusharing.snapshots.world import World

ROOT: Final = Path(__file__).parents[2]
NOW: Final = "2026-11-20T12:00:00Z"
EARLIER: Final = "2026-11-20T10:00:00Z"
_REFUSED: Final = "0/2 nodes are available: 2 cannot allocate all claims."
_POLICY: Final = PolicyReference(name="all-modes", generation=1)


def pod(name: str, claim: str, *, node: str = "", message: str = _REFUSED) -> Json:
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    status: Json = (
        {"phase": "Running"}
        if node
        else {"phase": "Pending", "conditions": [scheduled | {"lastTransitionTime": "2026-11-20T11:59:48Z"}]}
    )
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "spec": {
            "containers": [{"name": "main"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
            **({"nodeName": node} if node else {}),
        },
        "status": status,
    }


def claim(name: str, asked: Json, *results: Json, namespace: str = "ml", user: str = "") -> Json:
    status: Json = {}
    if results:
        status["allocation"] = {"devices": {"results": list(results)}, "allocationTimestamp": EARLIER}
        status["reservedFor"] = [{"resource": "pods", "name": user or name, "uid": f"uid-{user or name}"}]
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": [asked]}},
        "status": status,
    }


def result(node: str, device: str, share: Mapping[str, str] | None = None) -> Json:
    found: Json = {"request": "gpu", "driver": DRIVER, "pool": node, "device": device}
    return found if share is None else found | {"shareID": f"share-{device}", "consumedCapacity": dict(share)}


def node(name: str) -> Json:
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {}, "status": {}}


def slices(*nodes: str, only: Callable[[str], bool] = lambda _: True) -> list[Json]:
    """`only`: devices that are published; the others are withdrawn because the GPU is in use."""
    found = []
    for name in nodes:
        for number, spec in enumerate(our_slices(name)):
            devices = [one for one in spec.get("devices", ()) if only(one["name"])]
            found.append(
                {
                    "metadata": {"name": f"{number}-{name}"},
                    "spec": spec | ({"devices": devices} if "devices" in spec else {}),
                }
            )
    return found


def node_sharing(
    name: str, *held: tuple[Json, str], offers: Offers = ALL_MODES, conditions: tuple[Condition, ...] = ()
) -> Json:
    """Of one GPU. `held`: claims with their devices."""
    gpu = board("H100-80GB", 0)
    claims = tuple(
        (
            one["metadata"]["uid"],
            f"{one['metadata']['namespace']}/{one['metadata']['name']}",
            DeviceSettings(
                request="gpu",
                device=device,
                interval=Interval.MEDIUM,
                sources=SettingSources(interval="policy/all-modes"),
            ),
        )
        for one, device in held
    )
    status = GpuStatus(
        uuid=gpu.uuid,
        slot=0,
        minor=0,
        model=gpu.product_name,
        memory="81559Mi",
        attributes=board_attributes(gpu),
        policy=_POLICY,
        pool=name,
        published=tuple(PublishedDevice(device=device) for device in dict.fromkeys(device for _, device in held)),
        conditions=conditions,
    )
    sharing = NodeSharing(
        metadata={"name": name, "uid": f"uid-{name}", "resourceVersion": "1"},
        spec=NodeSharingSpec(
            gpus=(
                GpuSharing(
                    uuid=gpu.uuid,
                    policy=_POLICY,
                    offers=offers,
                    allocated=tuple(
                        AllocatedDevice(
                            claim=uid,
                            device=settings.device,
                            share_id=f"share-{uid}" if "timeslicing" in settings.device else None,
                        )
                        for uid, _, settings in claims
                    ),
                ),
            ),
            claims=tuple(
                ClaimSharing(uid=uid, claim=key, allocation_hash="", verdict="Allowed", settings=(settings,))
                for uid, key, settings in claims
            ),
        ),
        status=NodeSharingStatus(
            gpus=(status,),
            models=described([gpu]),
            claims=tuple(ClaimStatus(uid=uid, claim=key, settings=(settings,)) for uid, key, settings in claims),
        ),
    )
    value = sharing.to_json()
    value["metadata"] = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    return value


def classes() -> list[Json]:
    texts = (ROOT / "manifests/base/deviceclasses.yaml").read_text()
    return [one | {"metadata": one["metadata"] | {"uid": "u"}} for one in yaml.safe_load_all(texts)]


def world(**objects: Any) -> World:
    return World(minor=37, taken_at=NOW, classes=classes(), **{"nodes": [node("node-1"), node("node-2")], **objects})


SHARED: Final = "timeslicing.gpu.nvidia.com"
WHOLE: Final = "gpu.nvidia.com"


def _too_large() -> World:
    asked = request("mps.gpu.nvidia.com", capacity={"requests": {"memory": "30Gi"}})
    objects = {"slices": slices("node-1", "node-2"), "claims": [claim("train-7-gpu", asked)]}
    return world(pods=[pod("train-7", "train-7-gpu")], **objects)


def _other_mode() -> World:
    share = claim(
        "notebook-gpu", request(SHARED), result("node-1", "gpu-0-timeslicing", {"shares": "1"}), user="notebook"
    )
    return world(
        nodes=[node("node-1")],
        slices=slices("node-1", only="gpu-0-timeslicing".__eq__),
        claims=[share, claim("train-7-gpu", request(WHOLE))],
        pods=[pod("train-7", "train-7-gpu", message=_REFUSED.replace("2", "1"))],
        node_sharings=[node_sharing("node-1", (share, "gpu-0-timeslicing"))],
    )


def _memory_as_attribute() -> World:
    asked = request(WHOLE, selector=f'device.attributes["{DRIVER}"].memory >= "16Gi"')
    message = (
        f'running "DynamicResources" filter plugin: claim ml/train-7-gpu: selector #0 on device {DRIVER}/node-1/gpu-0: '
        "CEL runtime error: no such key: memory"
    )
    return world(
        slices=slices("node-1"),
        claims=[claim("train-7-gpu", asked)],
        pods=[pod("train-7", "train-7-gpu", message=message)],
    )


def _not_a_tenant() -> World:
    restricted = [
        {"metadata": {"name": f"{number}-node-1"}, "spec": spec}
        for number, spec in enumerate(our_slices("node-1", policy="search"))
    ]
    policy = {
        "metadata": {"name": "search", "uid": "u", "resourceVersion": "1"},
        "spec": {"offers": {"exclusive": {}}, "tenants": {"namespaces": {"matchLabels": {"team": "search"}}}},
    }
    expression = f'device.driver == "{DRIVER}" && device.attributes["gpusharing.dev"].policy == "search"'
    of_policy = {
        "metadata": {"name": "search-exclusive", "uid": "u"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    found = world(
        nodes=[node("node-1")],
        slices=restricted,
        policies=[policy],
        namespaces=[{"metadata": {"name": "ml", "labels": {"team": "ml"}}}],
        claims=[claim("train-7-gpu", request("search-exclusive"))],
        pods=[pod("train-7", "train-7-gpu", message=_REFUSED.replace("2", "1"))],
    )
    found.classes.append(of_policy)  # type: ignore[attr-defined]
    return found


def _fragmented() -> World:
    held = [
        (
            claim(f"small-{start}-gpu", request("mig.nvidia.com"), result("node-1", device), user=f"small-{start}"),
            device,
        )
        for start in (1, 5)
        for device in [names.mig_device(0, "1g.10gb", names.MigPlace(19, start))]
    ]
    profile = f'device.attributes["{DRIVER}"].profile == "3g.40gb"'
    return world(
        nodes=[node("node-1")],
        slices=slices("node-1", only=lambda device: "mig-1g" in device),
        claims=[*(one for one, _ in held), claim("train-7-gpu", request("mig.nvidia.com", selector=profile))],
        pods=[pod("train-7", "train-7-gpu", message=_REFUSED.replace("2", "1"))],
        node_sharings=[node_sharing("node-1", *held)],
    )


def _group() -> World:
    member = pod("train-7", "train-7-gpu", message="waiting for the PodGroup")
    member["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    group = {"metadata": {"name": "train", "namespace": "ml"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}}
    return world(
        pods=[member], pod_groups=[group], claims=[claim("train-7-gpu", request(WHOLE))], slices=slices("node-1")
    )


def _running() -> World:
    """By a policy without `offers.timeSlicing.memory`: the scheduler counts shares only."""
    offers = ALL_MODES.model_copy(update={"time_slicing": TimeSlicingOffer(max_clients=4)})
    mine = claim("train-7-gpu", request(SHARED), result("node-1", "gpu-0-timeslicing", {"shares": "1"}))
    other = claim("notebook-gpu", request(SHARED), result("node-1", "gpu-0-timeslicing", {"shares": "1"}))
    held = [(mine, "gpu-0-timeslicing"), (other, "gpu-0-timeslicing")]
    return world(
        claims=[mine, other],
        pods=[pod("train-7", "train-7-gpu", node="node-1")],
        node_sharings=[node_sharing("node-1", *held, offers=offers)],
    )


def _unhealthy() -> World:
    condition = Condition(
        type="Healthy",
        status="False",
        reason="FatalXid",
        message="XID 79: GPU has fallen off the bus",
        last_transition_time=EARLIER,
    )
    return world(node_sharings=[node_sharing("node-1", conditions=(condition,))])


def _policy() -> World:
    conditions = [
        {"type": "Accepted", "status": "True", "reason": "Accepted", "lastTransitionTime": EARLIER},
        {
            "type": "Ready",
            "status": "False",
            "reason": "WaitingForNodes",
            "message": "1 of 2 nodes",
            "lastTransitionTime": EARLIER,
        },
    ]
    message = "GPU gpu-0 is in use by claim ml/notebook-gpu; delete pod notebook in namespace ml"
    policy = {
        "metadata": {"name": "all-modes", "uid": "u", "resourceVersion": "1", "generation": 2},
        "spec": {"offers": ALL_MODES.to_json()},
        "status": {
            "observedGeneration": 2,
            "conditions": conditions,
            "nodes": {"selected": 2, "ready": 1},
            "gpus": {"won": 2, "lost": 0},
            "clients": {"current": 1, "max": 24},
            "lagging": [{"node": "node-1", "reason": "InUse", "message": message}],
        },
    }
    return world(policies=[policy])


SCENES: Final[Mapping[str, tuple[Callable[[], World], tuple[str, str], int]]] = {
    "too-large": (_too_large, ("pod", "train-7"), 4),
    "other-mode": (_other_mode, ("pod", "train-7"), 3),
    "memory-as-attribute": (_memory_as_attribute, ("pod", "train-7"), 4),
    "not-a-tenant": (_not_a_tenant, ("pod", "train-7"), 4),
    "fragmented": (_fragmented, ("pod", "train-7"), 3),
    "group": (_group, ("pod", "train-7"), 3),
    "running": (_running, ("pod", "train-7"), 0),
    "unhealthy": (_unhealthy, ("node", "node-1"), 4),
    "gpu": (_running, ("gpu", "node-1/gpu-0"), 0),
    "policy": (_policy, ("policy", "all-modes"), 3),
}
"""The cluster, what is asked, and the exit code."""
