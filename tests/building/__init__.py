"""Builders of what the decisions take in: everything has a default, so that a test names only what it is about."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from building.from_nothing import World
from gpusharing.api import names
from gpusharing.api.dra import (
    Allocation,
    AllocationConfig,
    AllocationResult,
    ClaimMeta,
    DeviceAllocation,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    Namespace,
    Node,
    OpaqueConfig,
    ResourceClaim,
    ResourceClaimConsumer,
    ResourceClaimSpec,
    ResourceClaimStatus,
    Toleration,
    Wish,
)
from gpusharing.api.meta import (
    LabelledMeta,
    LabelSelector,
    NamespaceMeta,
    ObjectMeta,
    OwnedMeta,
    OwnerReference,
    WholeMeta,
    key_of,
)
from gpusharing.api.sharing.classes import Classes
from gpusharing.api.sharing.device_settings import DeviceSettings
from gpusharing.api.sharing.gpu_status import GpuStatus, PublishedDevice
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import GpuSharing, NodeSharingSpec, PolicyReference
from gpusharing.api.sharing.node_status import ClaimStatus, NodeSharingStatus
from gpusharing.api.sharing.offers import ExclusiveOffer, Interval, Offers, TimeSlicingOffer
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.api.sharing.policy_spec import CelSelector, DeviceSelector, GpuSelection, SharingPolicySpec
from gpusharing.api.sharing.policy_status import SharingPolicyStatus
from gpusharing.api.sharing.rollout import Rollout
from gpusharing.api.sharing.tenants import Tenants
from gpusharing.api.templates import ResourceClaimTemplate, TemplateMeta
from gpusharing.core.devices.gpu import Gpu
from gpusharing.core.intents import Create
from gpusharing.core.publishing.attributes import board_attributes
from gpusharing.core.state.node_view import NodeView, Place
from gpusharing.core.verdicts.taint_rules import rule_intents

DRIVER: Final = "gpu.nvidia.com"
NOW: Final = "2026-11-18T12:00:00Z"
LATER: Final = "2026-11-18T13:00:00Z"

MINOR: Final = 37

EXCLUSIVE: Final = Offers(exclusive=ExclusiveOffer())
UNACCEPTABLE: Final = "nonsense"
"""A selector that is no CEL."""


def time_slicing(max_clients: int = 4, interval: Interval = Interval.DEFAULT, *, exclusive: bool = False) -> Offers:
    return Offers(
        exclusive=ExclusiveOffer() if exclusive else None,
        time_slicing=TimeSlicingOffer(max_clients=max_clients, interval=interval),
    )


def policy(
    name: str = "shared",
    *,
    priority: int = 0,
    generation: int = 1,
    nodes: Mapping[str, str] | None = None,
    max_per_node: int | str | None = None,
    selectors: Sequence[str] = (),
    accepted: bool = True,
    offers: Offers | None = None,
    tenants: Tenants | None = None,
    classes: Classes | None = None,
    rollout: Rollout | None = None,
    status: SharingPolicyStatus | None = None,
) -> SharingPolicy:
    return SharingPolicy(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", resource_version="1", generation=generation),
        spec=SharingPolicySpec(
            priority=priority,
            nodes=LabelSelector(match_labels=dict(nodes or {})),
            gpus=GpuSelection(
                selectors=tuple(
                    DeviceSelector(cel=CelSelector(expression=expression))
                    for expression in [*selectors, *([] if accepted else [UNACCEPTABLE])]
                ),
                max_per_node=max_per_node,
            ),
            offers=offers or time_slicing(),
            tenants=tenants or Tenants(),
            classes=classes or Classes(create=False),
            rollout=rollout or Rollout(),
        ),
        status=status or SharingPolicyStatus(),
    )


def uuid(slot: int, node: str = "n1") -> str:
    return f"GPU-{node}-{slot}"


def gpu(slot: int = 0, **changes: Any) -> Gpu:
    facts: dict[str, Any] = {
        "uuid": uuid(slot),
        "slot": slot,
        "minor": slot,
        "product_name": "NVIDIA H100 80GB HBM3",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "memory_mib": 81559,
        "compute_capability": (9, 0),
        "driver_version": "580.173.02",
        "cuda_driver_version": (13, 0),
        "pci_bus_id": f"0000:{slot + 1:02x}:00.0",
    }
    return Gpu(**(facts | changes))


def gpu_status(slot: int = 0, *, node: str = "n1", in_force: PolicyReference | None = None) -> GpuStatus:
    return GpuStatus(
        uuid=uuid(slot, node),
        slot=slot,
        minor=slot,
        model="NVIDIA H100 80GB HBM3",
        memory="81559Mi",
        attributes=board_attributes(gpu(slot, uuid=uuid(slot, node))),
        policy=in_force,
        published=(PublishedDevice(device=names.whole_device(slot)),) if in_force else (),
    )


def decided(slot: int, winner: SharingPolicy | None = None, *, node: str = "n1") -> GpuSharing:
    """What the operator decided earlier about a GPU."""
    if winner is None:
        return GpuSharing(uuid=uuid(slot, node))
    return GpuSharing(
        uuid=uuid(slot, node),
        policy=reference(winner),
        priority=winner.spec.priority,
        offers=winner.spec.offers,
        restricted=winner.spec.tenants.namespaces != LabelSelector(),
    )


def reference(of: SharingPolicy) -> PolicyReference:
    return PolicyReference(name=of.metadata.name, generation=of.metadata.generation)


def node(name: str = "n1", **labels: str) -> Node:
    return Node(metadata=LabelledMeta(name=name, labels=labels))


def node_sharing(
    name: str = "n1",
    *,
    gpus: Sequence[GpuStatus] | int = 1,
    spec: NodeSharingSpec | None = None,
    generation: int = 1,
    observed_generation: int | None = None,
    claims: Sequence[ClaimStatus] = (),
) -> NodeSharing:
    reported = [gpu_status(slot, node=name) for slot in range(gpus)] if isinstance(gpus, int) else gpus
    return NodeSharing(
        metadata=WholeMeta(name=name, uid=f"uid-{name}", resource_version="1", generation=generation),
        spec=spec or NodeSharingSpec(),
        status=NodeSharingStatus(observed_generation=observed_generation, gpus=tuple(reported), claims=tuple(claims)),
    )


def result(
    device: str = "gpu-0",
    *,
    request: str = "gpu",
    pool: str = "n1",
    driver: str = DRIVER,
    admin_access: bool | None = None,
    share_id: str | None = None,
    consumed: Mapping[str, str] | None = None,
    tolerations: Sequence[Mapping[str, Any]] = (),
) -> AllocationResult:
    return AllocationResult(
        request=request,
        driver=driver,
        pool=pool,
        device=device,
        admin_access=admin_access,
        share_id=share_id,
        consumed_capacity=dict(consumed or {}),
        tolerations=tuple(Toleration(**toleration) for toleration in tolerations),
    )


def config(
    parameters: Any, *, source: str = "FromClaim", requests: Sequence[str] = (), driver: str = DRIVER
) -> AllocationConfig:
    return AllocationConfig(
        source=source, requests=tuple(requests), opaque=OpaqueConfig(driver=driver, parameters=parameters)
    )


def gpu_config(sharing: Mapping[str, Any] | None = None, *, kind: str = "GpuConfig") -> dict[str, Any]:
    """NVIDIA's opaque parameters."""
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind}
    return parameters | ({"sharing": dict(sharing)} if sharing is not None else {})


def interval_config(interval: str) -> dict[str, Any]:
    return gpu_config({"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": interval}})


def claim(
    name: str = "c1",
    *results: AllocationResult,
    configs: Iterable[AllocationConfig] = (),
    allocated: bool = True,
    allocated_at: str | None = None,
    made_at: str = NOW,
    namespace: str = "default",
    pods: Sequence[str] = (),
    classes: Sequence[str] = (),
    made_for: str | None = None,
) -> ResourceClaim:
    """`made_for`: the pod for which it was made from a template."""
    owner = OwnerReference(api_version="v1", kind="Pod", name=made_for or "", uid=f"uid-{made_for}")
    devices = DeviceAllocation(results=results or (result(),), config=tuple(configs))
    allocation = Allocation(devices=devices, allocation_timestamp=allocated_at)
    return ResourceClaim(
        metadata=ClaimMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-{name}",
            creation_timestamp=made_at,
            owner_references=(owner,) if made_for else (),
        ),
        spec=ResourceClaimSpec(
            devices=DeviceClaim(
                requests=tuple(DeviceRequest(exactly=Wish(device_class_name=wanted)) for wanted in classes)
            )
        ),
        status=ResourceClaimStatus(
            allocation=allocation if allocated else None,
            reserved_for=tuple(ResourceClaimConsumer(resource="pods", name=pod, uid=f"uid-{pod}") for pod in pods),
        ),
    )


def prepared(*claims: ResourceClaim) -> tuple[ClaimStatus, ...]:
    """What an agent says that has prepared all that they were allocated."""
    return tuple(
        ClaimStatus(
            uid=claim.metadata.uid,
            claim=f"{claim.metadata.namespace}/{claim.metadata.name}",
            settings=tuple(
                DeviceSettings(request=result.request, device=result.device)
                for result in (claim.status.allocation.devices.results if claim.status.allocation else ())
            ),
        )
        for claim in claims
    )


def world(
    *,
    policies: Iterable[SharingPolicy] = (),
    nodes: Iterable[Node] = (),
    node_sharings: Iterable[NodeSharing] = (),
    claims: Iterable[ResourceClaim] = (),
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
    taint_rules: Iterable[DeviceTaintRule] | None = (),
    classes: Iterable[DeviceClass] = (),
) -> World:
    """NodeSharings without a Node of their own get one."""
    sharings = {sharing.metadata.name: sharing for sharing in node_sharings}
    named = {name: node(name) for name in sharings} | {item.metadata.name: item for item in nodes}
    return World(
        driver=DRIVER,
        minor=MINOR,
        policies={item.metadata.name: item for item in policies},
        nodes=named,
        node_sharings=sharings,
        claims={key_of(item): item for item in claims},
        namespaces={
            name: Namespace(metadata=NamespaceMeta(name=name, labels=dict(labels)))
            for name, labels in (namespaces or {}).items()
        },
        classes={item.metadata.name: item for item in classes},
        taint_rules=None if taint_rules is None else {item.metadata.name: item for item in taint_rules},
    )


def class_of(policy: str, suffix: str = "timeslicing") -> DeviceClass:
    """As the operator makes them for policies."""
    owner = OwnerReference(kind="SharingPolicy", name=policy, uid=f"uid-{policy}")
    return DeviceClass(metadata=OwnedMeta(name=f"{policy}-{suffix}", owner_references=(owner,)))


def template_of(
    policy: str,
    suffix: str = "timeslicing",
    *,
    namespace: str = "team",
    spec: Mapping[str, Any] | None = None,
    labelled: bool = True,
    owned: bool = True,
) -> ResourceClaimTemplate:
    """As the operator makes them for policies, if nothing else is said."""
    name = f"{policy}-{suffix}"
    owner = OwnerReference(kind="SharingPolicy", name=policy, uid=f"uid-{policy}")
    request = {"name": "gpu", "exactly": {"deviceClassName": name}}
    metadata = TemplateMeta(
        name=name,
        namespace=namespace,
        uid=f"uid-{namespace}-{name}",
        labels={names.POLICY_LABEL: policy} if labelled else {},
        owner_references=(owner,) if owned else (),
    )
    whole: Any = {"spec": {"devices": {"requests": [request]}}} if spec is None else spec
    return ResourceClaimTemplate(metadata=metadata, spec=whole)


def taint_rule(device: str, *, pool: str = "n1") -> DeviceTaintRule:
    """As the operator makes it, and the API server keeps it."""
    view = NodeView(driver=DRIVER, sharing=node_sharing(names.node_of_pool(pool)), labels={}, claims=(), taint_rules=())
    [intent] = rule_intents(view, [Place(pool, device)])
    assert isinstance(intent, Create)
    metadata, spec = intent.body["metadata"], intent.body["spec"]
    return DeviceTaintRule(
        metadata=LabelledMeta(name=metadata["name"], labels=metadata["labels"]),
        spec=DeviceTaintRuleSpec(device_selector=spec["deviceSelector"], taint=spec["taint"] | {"timeAdded": NOW}),
    )
