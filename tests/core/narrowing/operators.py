"""The operator in the model: the real functions, and naive ones that the model must find faulty.

Times stand for numbers: a write of the guard is a number, and so is each time that a device begins to close.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from building import DRIVER, claim, gpu_status, node_sharing, result
from building.guards import bound, installed
from gpusharing.api import names
from gpusharing.api.sharing.gpu_status import PublishedDevice
from gpusharing.api.sharing.node_spec import GpuSharing
from gpusharing.core.cluster.guards import closing_upkeep, literals
from gpusharing.core.cluster.guards.closing import CLOSED, CLOSING
from gpusharing.core.cluster.guards.upkeep import Guards, texts
from gpusharing.core.decision.fencing import still_in_force
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.state.fence import Closed, Fence
from gpusharing.core.state.node_view import GpuView, NodeView
from gpusharing.core.timestamps import moment, seconds
from gpusharing.core.verdicts.occupancy import closing_pools, with_occupancy

_BEGAN: Final = seconds("2026-11-18T12:00:00Z")
_WAIT: Final = 10_000_000.0
_BETWEEN: Final = 1_000
NEVER: Final = 10.0**12

Records = tuple[tuple[str, Closed], ...]
"""What a guard refuses: pools and their records."""
Approved = frozenset[tuple[str, int]]
"""Devices, each with the number of its closing."""


class Spec(NamedTuple):
    """What the operator has told the agent."""

    approved: Approved = frozenset()
    closed_names: tuple[str, ...] = ()


class Guard(NamedTuple):
    """The closing guard as the operator knows it."""

    seen: Records
    """When it was seen to hold."""
    written: Records | None
    """As it is stored now; None: it is missing."""


class Report(NamedTuple):
    """What the operator has heard of the agent last."""

    pool: str
    published: tuple[tuple[str, int | None], ...]
    """Devices, and which of its closings it is in."""


def as_records(fence: Fence) -> Records:
    return tuple((pool, one) for pool in sorted(fence) for one in fence[pool])


def as_fence(records: Records) -> Fence:
    fence: dict[str, tuple[Closed, ...]] = {}
    for pool, one in records:
        fence[pool] = (*fence.get(pool, ()), one)
    return fence


def refuses(records: Records, device: str) -> bool:
    """As the guard does."""
    pool, _, name = device.rpartition("/")
    return any(one_pool == pool and names.is_covered(name, one.items) for one_pool, one in records)


@dataclass(frozen=True)
class Operator:
    offered: tuple[OfferedGpu, ...]
    """How the GPU is to be offered, by the number of the policy."""

    def entry(self, policy: int) -> GpuSharing:
        offered = self.offered[policy]
        return GpuSharing(uuid=self._uuid, policy=offered.policy, offers=offered.offers, restricted=offered.restricted)

    @cached_property
    def _uuid(self) -> str:
        return gpu_status(0).uuid

    def view(self, report: Report, held: frozenset[str]) -> GpuView:
        """`held`: with their pools."""
        published = tuple(
            PublishedDevice(device=device, closing_since=None if number is None else moment(_BEGAN + number))
            for device, number in report.published
        )
        status = gpu_status(0).model_copy(update={"published": published, "pool": report.pool})
        places = [device.rpartition("/") for device in sorted(held)]
        claims = [claim(f"{pool}.{device}", result(device, pool=pool)) for pool, _, device in places]
        view = NodeView(driver=DRIVER, sharing=node_sharing(gpus=[status]), labels={}, claims=tuple(claims))
        return view.gpus[self._uuid]

    def guard(
        self, records: Records, report: Report, policy: int, held: frozenset[str], *, write: int, late: bool
    ) -> Records:
        """What is written into it, as the `write`th time. `late`: after the longest wait."""
        closing = closing_pools([self.entry(policy)], {self._uuid: self.view(report, held)}, as_fence(records))
        now = moment(_BEGAN + write * _BETWEEN + late * _WAIT)
        decision = closing_upkeep.update_fence(closing, _knowing(records), bound(), idle_wait=_WAIT, now=now)
        if not decision.intents:
            return records
        [intent] = decision.intents
        guard = installed()[CLOSING]
        return as_records(closing_upkeep.read(replace(guard, spec=guard.spec | intent.body["spec"])).fence)

    def spec(self, report: Report, policy: int, guard: Guard, held: frozenset[str]) -> Spec:
        stored = as_fence(guard.written or ())
        [entry] = with_occupancy(
            [self.entry(policy)],
            {self._uuid: self.view(report, held)},
            fence=still_in_force(as_fence(guard.seen), stored),
            stored=stored,
            idle_wait=NEVER,
            now=moment(_BEGAN),
        )
        numbers: Mapping[str, int | None] = dict(report.published)
        approved = ((device, number) for device in entry.close_approved if (number := numbers[device]) is not None)
        return Spec(frozenset(approved), entry.closed_names)


def _knowing(records: Records) -> Guards:
    fence = as_fence(records)
    entries = {
        pool: literals.of([[one.since, one.over_since or "", *one.items] for one in ones])
        for pool, ones in fence.items()
    }
    guard = installed()[CLOSING]
    variables = texts(guard) | {CLOSED: literals.render(entries)}
    spec = guard.spec | {"variables": [{"name": name, "expression": text} for name, text in variables.items()]}
    return {CLOSING: replace(guard, spec=spec)}


class OpensWhatWasWithdrawn(Operator):
    """The entry leaves the guard with the device: what was decided before is forgotten."""

    def guard(
        self, records: Records, report: Report, policy: int, held: frozenset[str], *, write: int, late: bool
    ) -> Records:
        after = super().guard(records, report, policy, held, write=write, late=late)
        return tuple((pool, one) for pool, one in after if not one.over_since)


class OpensWhatIsOfferedAgain(Operator):
    """The entry leaves the guard as soon as the GPU is to come back: its devices have their old names again."""

    def guard(
        self, records: Records, report: Report, policy: int, held: frozenset[str], *, write: int, late: bool
    ) -> Records:
        after = super().guard(records, report, policy, held, write=write, late=late)
        belongs = names.pool(report.pool.partition("/")[0], restricted_to=self.entry(policy).restricted_to)
        return tuple((pool, one) for pool, one in after if pool != belongs)


class BelievesAGuardThatIsGone(Operator):
    """What was seen to hold once is in force for good."""

    def spec(self, report: Report, policy: int, guard: Guard, held: frozenset[str]) -> Spec:
        return super().spec(report, policy, guard._replace(written=guard.seen), held)


class TakesPublishedForHeld(Operator):
    """What is published again was never withdrawn."""

    def view(self, report: Report, held: frozenset[str]) -> GpuView:
        there = frozenset(f"{report.pool}/{device}" for device, number in report.published if number is None)
        return super().view(report, held | there)
