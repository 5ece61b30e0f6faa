"""Everything that the operator decides on, as it was at one moment."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gpusharing.api import names
from gpusharing.api.core import ResourceQuota, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding
from gpusharing.api.dra import DeviceClass, DeviceTaintRule, Namespace, Node, ResourceClaim
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.policy import SharingPolicy
from gpusharing.core.claims import allocation
from gpusharing.core.publishing.narrowing import IDLE_WAIT


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    driver: str
    minor: int
    """Of the Kubernetes whose scheduler is to read selectors as we do."""
    idle_wait: float = IDLE_WAIT
    """Seconds for which a device has to be closing before it may be withdrawn from an idle GPU."""
    policies: Mapping[str, SharingPolicy]
    nodes: Mapping[str, Node]
    node_sharings: Mapping[str, NodeSharing]
    claims: Mapping[str, ResourceClaim]
    """By uid."""
    classes: Mapping[str, DeviceClass] = field(default_factory=dict)
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    guards: Mapping[str, ValidatingAdmissionPolicy] = field(default_factory=dict)
    bindings: Mapping[str, ValidatingAdmissionPolicyBinding] = field(default_factory=dict)
    quotas: Mapping[tuple[str, str], ResourceQuota] = field(default_factory=dict)
    """By namespace and name."""
    taint_rules: Mapping[str, DeviceTaintRule] | None = None
    """None where the API server has no such kind."""
    told: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By uid, what people were told of objects that wait."""

    @property
    def setup(self) -> "Setup":
        return Setup(
            driver=self.driver,
            minor=self.minor,
            idle_wait=self.idle_wait,
            has_taint_rules=self.taint_rules is not None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What stays the same while the operator runs."""

    driver: str
    minor: int
    """Of the Kubernetes whose scheduler is to read selectors as we do."""
    idle_wait: float = IDLE_WAIT
    """Seconds for which a device has to be closing before it may be withdrawn from an idle GPU."""
    has_taint_rules: bool = False
    """Whether the API server has DeviceTaintRules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node in it: what was decided about it and what its agent reports."""

    sharing: NodeSharing
    labels: Mapping[str, str]
    claims: tuple[ResourceClaim, ...]
    """The claims that hold devices of this node."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The labels of the namespaces of these claims, as far as they are known."""
    taint_rules: tuple[DeviceTaintRule, ...] | None = None
    """Those of our own that taint devices of this node; None where the API server has no such kind."""

    @property
    def name(self) -> str:
        return self.sharing.metadata.name

    @property
    def gpus(self) -> list[GpuStatus]:
        """In the order in which the scheduler fills them."""
        return sorted(self.sharing.status.gpus, key=lambda gpu: gpu.slot)

    def differs_only_in_spec(self, other: "NodeView") -> bool:
        """Or not at all. What is decided about a node stands in its spec."""
        return (
            self.sharing.metadata.uid == other.sharing.metadata.uid
            and self.sharing.status == other.sharing.status
            and self.labels == other.labels
            and self.claims == other.claims
            and self.namespaces == other.namespaces
            and self.taint_rules == other.taint_rules
        )


def node_views(world: World) -> list[NodeView]:
    """In the order of their names."""
    claims = _claims_by_node(world.claims.values(), world.driver)
    taint_rules = _taint_rules_by_node(world)
    return [
        NodeView(
            sharing=sharing,
            labels=world.nodes[name].metadata.labels,
            claims=tuple(claims.get(name, ())),
            namespaces=labels_of(world.namespaces, claims.get(name, ())),
            taint_rules=None if taint_rules is None else tuple(taint_rules.get(name, ())),
        )
        for name, sharing in sorted(world.node_sharings.items())
        # Without its Node it is about to be garbage-collected.
        if name in world.nodes
    ]


def nodes_of(claim: ResourceClaim, driver: str) -> set[str]:
    """The nodes of whose devices it holds any."""
    return {names.node_of_pool(result.pool) for result in allocation.results(claim, driver)}


def policies_of(claim: ResourceClaim, driver: str) -> set[str]:
    """For whose tenants alone devices are that it holds."""
    return {
        policy
        for result in allocation.results(claim, driver)
        if (policy := names.policy_of_pool(result.pool)) is not None
    }


def _claims_by_node(claims: Iterable[ResourceClaim], driver: str) -> Mapping[str, list[ResourceClaim]]:
    found: defaultdict[str, list[ResourceClaim]] = defaultdict(list)
    for claim in claims:
        for node in nodes_of(claim, driver):
            found[node].append(claim)
    return found


def labels_of(namespaces: Mapping[str, Namespace], claims: Iterable[ResourceClaim]) -> Mapping[str, Mapping[str, str]]:
    wanted = {claim.metadata.namespace for claim in claims}
    known = {name: namespaces[name].metadata.labels for name in wanted if name in namespaces}
    return {name: labels for name, labels in known.items() if labels is not None}


def _taint_rules_by_node(world: World) -> Mapping[str, list[DeviceTaintRule]] | None:
    if world.taint_rules is None:
        return None
    found: defaultdict[str, list[DeviceTaintRule]] = defaultdict(list)
    for name in sorted(world.taint_rules):
        rule = world.taint_rules[name]
        if (node := node_of_rule(rule)) is not None:
            found[node].append(rule)
    return found


def node_of_rule(rule: DeviceTaintRule) -> str | None:
    """The node of whose device it speaks; None if it is not ours."""
    if rule.metadata.labels.get(names.MANAGED_BY) != names.OPERATOR:
        return None
    return names.node_of_pool(rule.spec.device_selector.get("pool", ""))
