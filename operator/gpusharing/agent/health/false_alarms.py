"""An administrator names false alarms in an annotation of the NodeSharing, and the agent forgets these faults.

An annotation, because it is safe to repeat, needs no access to the node or its pods, and stands in the audit log of the
API server. A fault is named by its GPU and the time of its report, so an annotation that stays never hides a later one.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import structlog

from gpusharing.agent.health.events import HealthEvents
from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.api import names
from gpusharing.api.sharing.node_sharing import NodeSharing

log = structlog.get_logger(__name__)

_ENTRY: Final = re.compile(r"gpu-([0-9]{1,4})@([0-9TZ:.-]{1,32})")


class FaultName(NamedTuple):
    slot: int
    reported_at: str


class FalseAlarms:
    def __init__(self, health: NodeHealth, events: HealthEvents, *, uuid_at: Callable[[int], str | None]) -> None:
        """`uuid_at`: of the GPU in a slot."""
        self._health = health
        self._events = events
        self._uuid_at = uuid_at

    def clear(self, sharing: NodeSharing) -> None:
        for name in named_faults(sharing.metadata.annotations.get(names.CLEARED_FAULTS, "")):
            uuid = self._uuid_at(name.slot)
            if uuid is None:
                continue
            for fault in self._health.clear_faults(uuid, name.reported_at):
                log.warning("fault cleared", uuid=uuid, reason=fault.reason, xid=fault.xid, at=fault.reported_at)
                what = fault.reason if fault.xid is None else f"XID {fault.xid}"
                note = f"gpu-{name.slot} ({uuid}): {what} of {fault.reported_at} was cleared by an annotation"
                self._events.report_cleared(sharing, note)


def named_faults(annotation: str) -> Iterator[FaultName]:
    """Entries like gpu-0@2026-01-31T12:00:00Z, with commas between them. Other entries name no fault."""
    for entry in annotation.split(","):
        if match := _ENTRY.fullmatch(entry.strip()):
            yield FaultName(int(match[1]), match[2])
