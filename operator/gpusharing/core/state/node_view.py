"""One node as decisions see it: what was decided, what its agent reports, and which claims hold its devices."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from gpusharing.api import names
from gpusharing.api.dra import AllocationResult, DeviceTaintRule, ResourceClaim
from gpusharing.api.sharing.gpu_models import GpuModel
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.core.claims import allocation


class Place(NamedTuple):
    """A device in the cluster."""

    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.pool}/{self.device}"


class Hold(NamedTuple):
    """A device that a claim was allocated."""

    claim: ResourceClaim
    result: AllocationResult
    slot: int | None
    """Of the GPU; None: the device has no name of ours."""

    @property
    def uid(self) -> str:
        return self.claim.metadata.uid

    @property
    def place(self) -> Place:
        return Place(self.result.pool, self.result.device)


class GpuView(NamedTuple):
    """One GPU as its agent reports it, and who holds it."""

    node: str
    status: GpuStatus
    models: tuple[GpuModel, ...]
    """What the agent reports of the models of its GPUs."""
    holds: tuple[Hold, ...]
    """Without admin access, which takes nothing."""
    is_prepared: bool
    """Whether the agent has prepared something of it."""


@dataclass(frozen=True, kw_only=True)
class NodeView:
    sharing: NodeSharing
    labels: Mapping[str, str]
    not_ready_since: str | None = None
    """None: Kubernetes says that the node is Ready."""
    claims: tuple[ResourceClaim, ...]
    """The claims that hold devices of this node."""
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The labels of the namespaces of these claims, as far as they are known."""
    taint_rules: tuple[DeviceTaintRule, ...] | None = None
    """Those of our own that taint devices of this node; None where the API server has no such kind."""
    driver: str

    @property
    def name(self) -> str:
        return self.sharing.metadata.name

    @cached_property
    def holds(self) -> tuple[Hold, ...]:
        return tuple(
            [
                Hold(claim, result, names.slot_of_device(result.device))
                for claim in self.claims
                for result in allocation.results_on(claim, self.name, self.driver)
            ]
        )

    @cached_property
    def gpus(self) -> Mapping[str, GpuView]:
        """By uuid, in the order in which the scheduler fills them."""
        report = self.sharing.status
        by_slot: defaultdict[int | None, list[Hold]] = defaultdict(list)
        for hold in self.holds:
            if not hold.result.admin_access:
                by_slot[hold.slot].append(hold)
        prepared = {names.slot_of_device(device.device) for claim in report.claims for device in claim.settings}
        return {
            status.uuid: GpuView(
                self.name, status, report.models, tuple(by_slot.get(status.slot, ())), status.slot in prepared
            )
            for status in sorted(report.gpus, key=lambda status: status.slot)
        }
