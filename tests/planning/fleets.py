"""Clusters as the API server has them, after operator and agents have done what policies say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pydantic

from building import DRIVER, NOW, uuid
from building.boards import board
from gpusharing.api import names
from gpusharing.api.core import ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from gpusharing.api.dra import Node, ResourceClaim
from gpusharing.api.names import Sharing
from gpusharing.api.sharing.gpu_status import GpuStatus, MigMode, PublishedDevice
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_status import NodeSharingStatus
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.cluster.guards import allocation, claims, closing, pods
from gpusharing.core.decision.incremental import Decider
from gpusharing.core.devices import reported_models
from gpusharing.core.devices.offered import AS_FOUND, OfferedGpu
from gpusharing.core.intents import Create, Patch, ReplaceSpec, Target
from gpusharing.core.publishing.attributes import board_attributes
from gpusharing.core.publishing.menu import menu
from gpusharing.core.publishing.narrowing import GpuView, Holder, Publication, narrow
from gpusharing.core.publishing.slices import PublishedGpu, slice_specs
from gpusharing.core.state.cluster_state import Setup
from gpusharing.planning.state import see_guards
from gpusharing.snapshots.world import World

MINOR: Final = 37
_GUARD: Final = pydantic.TypeAdapter(ValidatingAdmissionPolicy)
_BINDING: Final = pydantic.TypeAdapter(ValidatingAdmissionPolicyBinding)
TEAM: Final = {"team": "search"}
INSTALLED: Final = (allocation.allocation, claims.claims, closing.closing, pods.pods)

_SUFFIXES: Final = {"exclusive": Sharing.EXCLUSIVE, "timeslicing": Sharing.TIME_SLICING, "mps": Sharing.MPS}


def policy(name: str, *, generation: int = 1, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gpusharing.dev/v1alpha1",
        "kind": "SharingPolicy",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "generation": generation},
        "spec": {"offers": {"exclusive": {}}, **spec},
    }


def mps(clients: int = 4, memory: str = "8Gi") -> dict[str, Any]:
    return {"mps": {"maxClients": clients, "memory": {"default": memory, "min": "1Gi"}, "threads": {"default": 25}}}


def time_slicing(clients: int = 4) -> dict[str, Any]:
    return {"timeSlicing": {"maxClients": clients}}


@dataclass
class Fleet:
    """What people have made; `world()` is what operator and agents make of it."""

    nodes: int = 2
    gpus: int = 2
    model: str = "H100-80GB"
    policies: Sequence[Mapping[str, Any]] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: {"default": {}, "search": TEAM})
    guarded: bool = True
    claims: list[dict[str, Any]] = field(default_factory=list)
    pods: list[dict[str, Any]] = field(default_factory=list)

    def hold(
        self,
        device: str,
        *,
        node: str = "node-0",
        name: str = "",
        namespace: str = "default",
        asks_for: str = "",
        reserved_for: str = "",
        consumed: Mapping[str, str] | None = None,
    ) -> None:
        """An allocated claim, and the pod that runs with it."""
        sharing = names.sharing_of_device(device)
        is_shared = sharing in {Sharing.TIME_SLICING, Sharing.MPS}
        name = name or f"c{len(self.claims)}"
        result: dict[str, Any] = {
            "request": "gpu",
            "driver": DRIVER,
            "pool": names.pool(node, restricted_to=reserved_for or None),
            "device": device,
        }
        if is_shared:
            result |= {"shareID": f"share-{name}", "consumedCapacity": dict(consumed or {"shares": "1", "memory": "0"})}
        self.claims.append(claim(name, asks_for or _generic(sharing), namespace=namespace))
        self.claims[-1]["status"] = {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": f"uid-{name}"}],
        }
        self.pods.append(pod(name, namespace=namespace, node=node))

    def wait(self, asks_for: str, *, namespace: str = "default", name: str = "", **more: Any) -> None:
        """A pod that waits, with its claim."""
        name = name or f"w{len(self.claims)}"
        self.claims.append(claim(name, asks_for, namespace=namespace, **more))
        self.pods.append(pod(name, namespace=namespace))

    def world(self) -> World:
        decider = Decider(Setup(driver=DRIVER, minor=MINOR, has_taint_rules=True))
        nodes = [self._node(f"node-{number}") for number in range(self.nodes)]
        statuses = {node["metadata"]["name"]: self._status(node["metadata"]["name"]) for node in nodes}
        sharings = {
            name: NodeSharing.model_validate(
                {"metadata": {"name": name, "uid": f"uid-ns-{name}", "resourceVersion": "1", "generation": 1}}
            ).model_copy(update={"status": status})
            for name, status in statuses.items()
        }
        guards, bindings = self._guards()
        for guard in guards:
            decider.state.put(ValidatingAdmissionPolicy, _GUARD.validate_python(guard))
        for binding in bindings:
            decider.state.put(ValidatingAdmissionPolicyBinding, _BINDING.validate_python(binding))
        see_guards(decider)
        for one in self.policies:
            decider.state.put(SharingPolicy, SharingPolicy.model_validate(one))
        for node in nodes:
            decider.state.put(Node, pydantic.TypeAdapter(Node).validate_python(node))
        for sharing in sharings.values():
            decider.state.put(NodeSharing, sharing)
        for one in self.claims:
            decider.state.put(ResourceClaim, pydantic.TypeAdapter(ResourceClaim).validate_python(one))
        for _ in decider.steps(now=NOW):
            pass
        for intent in decider.pending:
            if isinstance(intent, ReplaceSpec):
                name = intent.before.metadata.name
                metadata = sharings[name].metadata
                sharings[name] = sharings[name].model_copy(update={"spec": intent.spec, "metadata": metadata})
        slices = []
        for name, sharing in sharings.items():
            specs, status = self._publish(name, sharing)
            sharings[name] = sharing.model_copy(update={"status": status})
            slices += [{"metadata": {"name": f"{name}-{number}"}, "spec": spec} for number, spec in enumerate(specs)]
        classes = [*_classes_of_ours(), *(_created(intent) for intent in decider.pending if _is_class(intent))]
        return World(
            minor=MINOR,
            taken_at=NOW,
            nodes=nodes,
            namespaces=[
                {"metadata": {"name": name, "labels": dict(labels)}} for name, labels in self.namespaces.items()
            ],
            node_sharings=[
                {"metadata": {"name": name, "uid": f"uid-ns-{name}", "resourceVersion": "1", "generation": 2}}
                | sharing.model_copy().to_json()
                | {"metadata": {"name": name, "uid": f"uid-ns-{name}", "resourceVersion": "1", "generation": 2}}
                for name, sharing in sharings.items()
            ],
            policies=list(self.policies),
            claims=self.claims,
            pods=self.pods,
            slices=slices,
            classes=classes,
            guards=guards,
            bindings=bindings,
        )

    def _node(self, name: str) -> dict[str, Any]:
        ready = [{"type": "Ready", "status": "True"}]
        return {"metadata": {"name": name, "labels": dict(self.labels)}, "status": {"conditions": ready}}

    def _gpus(self, node: str) -> list[Any]:
        return [board(self.model, slot, uuid=uuid(slot, node)) for slot in range(self.gpus)]

    def _status(self, node: str) -> NodeSharingStatus:
        gpus = self._gpus(node)
        return NodeSharingStatus(
            observed_generation=2,
            models=reported_models.described(gpus),
            gpus=tuple(
                GpuStatus(
                    uuid=one.uuid,
                    slot=one.slot,
                    minor=one.minor,
                    model=one.product_name,
                    memory=f"{one.memory_mib}Mi",
                    mig_profiles=tuple(profile.name for profile in one.mig.profiles) if one.mig else (),
                    mig_mode=MigMode(enabled=False, found=False) if one.mig else None,
                    attributes=board_attributes(one),
                    pool=node,
                )
                for one in gpus
            ),
        )

    def _publish(self, node: str, sharing: NodeSharing) -> tuple[list[dict[str, Any]], NodeSharingStatus]:
        """As the agent does when everything has come to rest."""
        entries = {entry.uuid: entry for entry in sharing.spec.gpus}
        offered: list[OfferedGpu] = []
        views: list[GpuView] = []
        for one in self._gpus(node):
            entry = entries[one.uuid]
            pool = names.pool(node, restricted_to=entry.restricted_to)
            found = OfferedGpu(
                gpu=one,
                offers=entry.offers or AS_FOUND,
                policy=entry.policy,
                configured=True,
                restricted=entry.restricted,
                allow=entry.allow,
            )
            name = entry.policy.name if entry.policy else ""
            holders = tuple(
                Holder(allocated.claim, allocated.device, allocated.share_id) for allocated in entry.allocated
            )
            offered.append(found)
            views.append(
                GpuView(
                    gpu=one,
                    group=f"{name}/{one.product_name}",
                    menu=menu(found),
                    policy=name or None,
                    pool=pool,
                    configured=True,
                    published=Publication(pool=pool, complete=True),
                    prepared=holders,
                )
            )
        plans = narrow(views, now=1e9)
        by_pool: dict[str, list[PublishedGpu]] = {}
        for one, plan in zip(offered, plans, strict=True):
            by_pool.setdefault(plan.publication.pool, []).append(PublishedGpu(one, plan.publication.entries))
        specs = [
            spec
            for pool, some in by_pool.items()
            for spec in slice_specs(some, node=node, pool=pool, driver=DRIVER, generation=1)
        ]
        statuses = tuple(
            status.model_copy(
                update={
                    "policy": entries[status.uuid].policy,
                    "pool": plan.publication.pool,
                    "published": tuple(PublishedDevice(device=entry.device) for entry in plan.publication.entries),
                }
            )
            for status, plan in zip(sharing.status.gpus, plans, strict=True)
        )
        return specs, sharing.status.model_copy(update={"gpus": statuses})

    def _guards(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """With what the operator has written for these policies."""
        if not self.guarded:
            return [], []
        made = [make() for make in INSTALLED]
        decider = Decider(Setup(driver=DRIVER, minor=MINOR))
        for guard, binding in made:
            guard["metadata"] |= {"uid": "uid-guard", "resourceVersion": "7"}
            decider.state.put(ValidatingAdmissionPolicy, _GUARD.validate_python(guard))
            decider.state.put(ValidatingAdmissionPolicyBinding, _BINDING.validate_python(binding))
        for one in self.policies:
            decider.state.put(SharingPolicy, SharingPolicy.model_validate(one))
        for _ in decider.steps(now=NOW):
            pass
        patched = {
            intent.before.name: intent.body["spec"]
            for intent in decider.pending
            if isinstance(intent, Patch) and intent.target is Target.ADMISSION_POLICY
        }
        guards = [
            {**guard, "spec": {**guard["spec"], **patched.get(guard["metadata"]["name"], {})}} for guard, _ in made
        ]
        return guards, [binding for _, binding in made]


def claim(name: str, asks_for: str, *, namespace: str = "default", **more: Any) -> dict[str, Any]:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": asks_for, **more}}]
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": NOW},
        "spec": {"devices": {"requests": requests}},
    }


def pod(name: str, *, namespace: str = "default", node: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [], "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
    if node:
        spec["nodeName"] = node
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": NOW},
        "spec": spec,
        "status": {"phase": "Running" if node else "Pending"},
    }


def _classes_of_ours() -> list[dict[str, Any]]:
    ours = f'device.attributes["{names.GROUP}"]'

    def one(name: str, sharing: str) -> dict[str, Any]:
        expression = (
            f'device.driver == "{DRIVER}" && {ours}.?sharing.orValue("") == "{sharing}" && '
            f"{ours}.?closing.orValue(false) != true && {ours}.?restricted.orValue(false) != true"
        )
        return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}

    return [
        one("gpu.nvidia.com", "Exclusive"),
        one("timeslicing.gpu.nvidia.com", "TimeSlicing"),
        one("mps.gpu.nvidia.com", "MPS"),
        one("mig.nvidia.com", "MIG"),
    ]


def _generic(sharing: Sharing | None) -> str:
    return {
        Sharing.EXCLUSIVE: "gpu.nvidia.com",
        Sharing.TIME_SLICING: "timeslicing.gpu.nvidia.com",
        Sharing.MPS: "mps.gpu.nvidia.com",
        Sharing.MIG: "mig.nvidia.com",
    }[sharing or Sharing.EXCLUSIVE]


def _is_class(intent: object) -> bool:
    return isinstance(intent, Create) and intent.target is Target.DEVICE_CLASS


def _created(intent: Any) -> dict[str, Any]:
    metadata = {**intent.body["metadata"], "uid": "uid-class", "resourceVersion": "1", "creationTimestamp": NOW}
    return {**intent.body, "metadata": metadata}
