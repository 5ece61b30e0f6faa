"""Everything that the operator decides on, as it was at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpusharing.api.dra import DeviceClass, Namespace, Node, ResourceClaim
from gpusharing.api.sharing import GpuStatus, NodeSharing, SharingPolicy
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
