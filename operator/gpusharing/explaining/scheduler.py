"""What kube-scheduler itself says of a pod: its condition, and its Event."""

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from gpusharing.explaining import wording
from gpusharing.snapshots.world import Json

_HEAD: Final = re.compile(r"^0/(?P<nodes>\d+) nodes are available: (?P<reasons>.*?)\.(?: |$)", re.DOTALL)
_REASON: Final = re.compile(r"^(?P<count>\d+) (?P<text>.+)$", re.DOTALL)
_OF_DEVICES: Final = (
    "cannot allocate all claims",
    "resourceclaim not available on the node",
    "resource claim",
    "resourceclaim",
    "device class",
    "resource pool",
    "unresolvable",
    "claim",
)
_OF_NODES: Final = ("untolerated taint", "node affinity/selector", "unschedulable", "match pod's node")


class Reason(NamedTuple):
    on: int
    text: str

    @property
    def is_about_devices(self) -> bool:
        return any(part in self.text.lower() for part in _OF_DEVICES)

    @property
    def is_about_nodes(self) -> bool:
        """Those that we look at, too."""
        return any(part in self.text.lower() for part in _OF_NODES)


class Said(NamedTuple):
    message: str
    since: str
    """When it was said last."""
    reasons: Sequence[Reason] = ()
    """None: it did not come to look at nodes."""

    @property
    def is_about_devices(self) -> bool:
        return not self.reasons or any(one.is_about_devices for one in self.reasons)

    @property
    def others(self) -> list[Reason]:
        """Neither about devices nor about what nodes the pod may run on."""
        return [one for one in self.reasons if not one.is_about_devices and not one.is_about_nodes]

    def short(self, now: str) -> str:
        message = self.message.partition(" preemption: ")[0].removesuffix(" still not schedulable,")
        held = wording.age(self.since, now)
        return f'"{message.strip()}"' + (f" ({held} ago)" if held else "")


def said(pod: Json, events: Iterable[Json]) -> Said | None:
    """None: it has not looked at the pod yet."""
    found = [
        Said(one.get("message") or one.get("note") or "", _moment(one))
        for one in events
        if one.get("reason") == "FailedScheduling" and _is_about(one, pod)
    ]
    found += [
        Said(one["message"], one.get("lastTransitionTime") or "")
        for one in (pod.get("status") or {}).get("conditions") or ()
        if one["type"] == "PodScheduled" and one["status"] == "False" and one.get("message")
    ]
    if not found:
        return None
    # The condition has the newest message, and the Event the newest time of it.
    message = found[-1].message
    last = max((one for one in found if one.message == message), key=lambda one: one.since)
    return last._replace(reasons=_reasons(message))


def _reasons(message: str) -> Sequence[Reason]:
    head = _HEAD.match(message)
    if head is None:
        return ()
    found: list[Reason] = []
    for part in head["reasons"].split(", "):
        reason = _REASON.match(part)
        if reason:
            found.append(Reason(int(reason["count"]), reason["text"]))
        elif found:
            found[-1] = found[-1]._replace(text=f"{found[-1].text}, {part}")
    return found


def _is_about(event: Json, pod: Json) -> bool:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return bool(about.get("uid") == pod["metadata"].get("uid"))


def _moment(event: Json) -> str:
    series = event.get("series") or {}
    found: str = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or ""
    return found
