"""What a plan says: data, in the words of the API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusharing.api.sharing.node_spec import GpuSharing, Refusal
from gpusharing.api.sharing.offers import Offers
from gpusharing.api.sharing.plan import Effect
from gpusharing.findings.finding import Finding, Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPlan:
    """A GPU that changes."""

    uuid: str
    slot: int
    before: GpuSharing | None
    """As the operator has written it. None: it has not."""
    after: GpuSharing
    effect: Effect
    claims: tuple[str, ...] = ()
    """Those that block the change, as namespace/name."""

    @property
    def refused(self) -> tuple[Refusal, ...]:
        return self.after.refused


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    node: str
    gpus: tuple[GpuPlan, ...]
    added: tuple[str, ...] = ()
    """Devices that are published when the change is done, and not now."""
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """Of what belongs to the cluster: device classes, guards, quotas, templates."""

    object: Reference
    verb: str
    """create, update or delete."""
    details: tuple[str, ...] = ()
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Nodes on which a policy changes GPUs at the same time."""

    policy: str
    nodes: tuple[str, ...]
    seconds: float | None
    """How long it takes at most, once it has begun; None: as long as claims hold GPUs."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Pods, or claims of one kind."""

    namespace: str
    name: str
    """Of one of them."""
    count: int
    asks_for: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    policies: tuple[ObjectChange, ...]
    """What the files change of them."""
    nodes: tuple[NodePlan, ...]
    objects: tuple[ObjectChange, ...]
    steps: tuple[Step, ...]
    starting: tuple[Workload, ...]
    """Pods that wait now, and would start."""
    stranded: tuple[Workload, ...]
    """What runs now, and would find no place if it came again."""
    findings: tuple[Finding, ...] = ()
    unreadable: tuple[str, ...] = ()
    total_nodes: int = 0
    total_gpus: int = 0

    @property
    def changes(self) -> bool:
        return bool(self.nodes or self.objects or self.policies)

    @property
    def disturbed(self) -> Sequence[GpuPlan]:
        """GPUs whose change concerns running work."""
        disturbing = {Effect.WAITS, Effect.EVICTS, Effect.UNCHANGED_UNTIL_IDLE}
        return [gpu for node in self.nodes for gpu in node.gpus if gpu.effect in disturbing]


def in_words(offers: Offers | None) -> str:
    """Short: timeSlicing x4, mps x8, whole, mig 1g.10gb 3g.40gb."""
    if offers is None:
        return "as found"
    found: list[str] = []
    if offers.exclusive:
        found.append("whole")
    if offers.time_slicing:
        found.append(f"timeSlicing x{offers.time_slicing.max_clients}")
    if offers.mps:
        found.append(f"mps x{offers.mps.max_clients}")
    if offers.mig and offers.mig.layout:
        found.append("mig " + " ".join(f"{count}x {name}" for name, count in offers.mig.layout.items()))
    elif offers.mig:
        found.append("mig " + " ".join(offers.mig.profiles or ()))
    return ", ".join(found) or "nothing"
