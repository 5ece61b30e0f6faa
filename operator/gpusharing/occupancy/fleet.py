"""The GPUs of a cluster, who is on them, what was promised and what is used. `occupancy.of_scene` makes it."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpusharing.api.names import Sharing, whole_device
from gpusharing.findings.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A device of a claim that the caller may read. Memory is in MiB; of 1 a GPU is fully promised, or fully busy."""

    namespace: str
    claim: str
    uid: str
    pods: tuple[str, ...] = ()
    device: str
    mode: Sharing
    profile: str = ""
    """Of a MIG device: 3g.40gb."""
    shares: int = 1
    """Of a shared GPU; of a MIG device its compute slices, or 1 if they are not known."""
    ratio: float | None = None
    """Which part of the GPU the claim was promised. None: not known."""
    memory_promised: int | None = None
    """None: nothing limits it."""
    memory_used: int | None = None
    """None: nobody knows."""
    utilization: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    node: str
    slot: int
    uuid: str = ""
    """Empty: the caller may not read the NodeSharing."""
    model: str = ""
    memory: int = 0
    """Which programs can use, in MiB; 0: not known."""
    policy: str | None = None
    """The one that is in force. None: the GPU is offered as it was found."""
    restricted: bool = False
    """Reserved for tenants of the policy."""
    offers: tuple[Sharing, ...] | None = None
    """In which it can be had while it is idle: none while it is unhealthy or being changed. None: it is offered as it
    was found, or nobody knows."""
    modes: tuple[Sharing, ...] = ()
    """In which it is in use: none, one, or several while a change drains."""
    shares_taken: int = 0
    shares_total: int | None = None
    """Of the mode in use; of an idle GPU the most that it offers. None: not known."""
    ratio: float | None = 0.0
    """Which part of it is promised to claims. None: not known."""
    memory_promised: int = 0
    memory_used: int | None = None
    utilization: float | None = None
    health: str = ""
    """The reason why it cannot be used, such as FatalXid; empty: nothing is known to be wrong."""
    holders: tuple[Holder, ...] = ()
    """In the order of devices, then of names."""
    hidden_claims: tuple[str, ...] = ()
    """The uids of claims that the caller may not read. Their part is in the sums."""

    @property
    def hidden(self) -> int:
        return len(self.hidden_claims)

    @property
    def name(self) -> str:
        return whole_device(self.slot)

    @property
    def is_idle(self) -> bool:
        return not self.holders and not self.hidden_claims


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUse:
    name: str
    gpus: tuple[GpuUse, ...] = ()
    """In the order of their slots."""
    problem: str = ""
    """Why its agent is not ready: a reason such as GpusNotFound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Sums: of a node, a namespace, a policy or of all."""

    name: str = ""
    gpus: int = 0
    """Of a namespace: those on which it has a claim."""
    gpus_in_use: int = 0
    claims: int = 0
    """With those that are hidden."""
    hidden: int = 0
    ratio: float = 0.0
    """How many GPUs are promised: 1.5 are one and a half."""
    memory: int = 0
    memory_promised: int = 0
    memory_used: int | None = None
    """Of those where it is known. None: nowhere."""
    utilization: float | None = None
    """The mean of the GPUs, or of the holders, where it is known. None: nowhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A pod that is not scheduled and asks for devices."""

    namespace: str
    pod: str
    since: str = ""
    claims: tuple[str, ...] = ()
    finding: Finding | None = None
    """The first of `explain pod`, with code, title, sentence and remedy. None: so many wait that it was not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    taken_at: str = ""
    nodes: tuple[NodeUse, ...] = ()
    """By name."""
    total: Use = Use()
    policies: tuple[Use, ...] = ()
    """By name; the one of GPUs without a policy has none."""
    namespaces: tuple[Use, ...] = ()
    """By name; all that is hidden is together in one without a name."""
    waiting: tuple[Waiting, ...] = ()
    """The longest first."""
    notes: tuple[Finding, ...] = ()
    """What could not be read, and what is therefore missing."""

    @property
    def gpus(self) -> Sequence[GpuUse]:
        return [gpu for node in self.nodes for gpu in node.gpus]
