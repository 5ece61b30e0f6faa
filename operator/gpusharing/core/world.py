"""Everything that the operator decides on, as it was at one moment."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpusharing.api import names
from gpusharing.api.core import ResourceQuota, ValidatingAdmissionPolicy
from gpusharing.api.dra import DeviceClass, Namespace, Node, ResourceClaim
from gpusharing.api.sharing import GpuStatus, NodeSharing, SharingPolicy
from gpusharing.core import allocation
from gpusharing.core.narrowing import IDLE_WAIT


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
    quotas: Mapping[tuple[str, str], ResourceQuota] = field(default_factory=dict)
    """By namespace and name."""

    @property
    def setup(self) -> "Setup":
        return Setup(driver=self.driver, minor=self.minor, idle_wait=self.idle_wait)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What stays the same while the operator runs."""

    driver: str
    minor: int
    """Of the Kubernetes whose scheduler is to read selectors as we do."""
    idle_wait: float = IDLE_WAIT
    """Seconds for which a device has to be closing before it may be withdrawn from an idle GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node in it: what was decided about it and what its agent reports."""

    sharing: NodeSharing
    labels: Mapping[str, str]
    claims: tuple[ResourceClaim, ...]
    """The claims that hold devices of this node."""

    @property
    def name(self) -> str:
        return self.sharing.metadata.name

    @property
    def gpus(self) -> list[GpuStatus]:
        """In the order in which the scheduler fills them."""
        return sorted(self.sharing.status.gpus, key=lambda gpu: gpu.slot)


def node_views(world: World) -> list[NodeView]:
    """In the order of their names."""
    claims = _claims_by_node(world.claims.values(), world.driver)
    return [
        NodeView(sharing=sharing, labels=world.nodes[name].metadata.labels, claims=tuple(claims.get(name, ())))
        for name, sharing in sorted(world.node_sharings.items())
        # Without its Node it is about to be garbage-collected.
        if name in world.nodes
    ]


def nodes_of(claim: ResourceClaim, driver: str) -> set[str]:
    """The nodes of whose devices it holds any."""
    return {names.node_of_pool(result.pool) for result in allocation.results(claim, driver)}


def _claims_by_node(claims: Iterable[ResourceClaim], driver: str) -> Mapping[str, list[ResourceClaim]]:
    found: defaultdict[str, list[ResourceClaim]] = defaultdict(list)
    for claim in claims:
        for node in nodes_of(claim, driver):
            found[node].append(claim)
    return found
