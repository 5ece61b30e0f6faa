"""Which Events are in a bundle: those about our objects, and about pods with devices."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from gpusharing.api import names
from gpusharing.snapshots.world import Json

MOST: Final = 20_000
_KINDS: Final = frozenset(
    {"SharingPolicy", "NodeSharing", "ResourceClaim", "ResourceSlice", "Node", "DaemonSet", "Deployment"}
)


def pods_with_devices(pods: Iterable[Json]) -> frozenset[str]:
    """Their uids, with those of operator and agents."""
    return frozenset(pod["metadata"].get("uid") or "" for pod in pods if _has_devices(pod))


def _has_devices(pod: Json) -> bool:
    spec = pod.get("spec") or {}
    if spec.get("resourceClaims") or names.program_of(pod["metadata"].get("labels") or {}):
        return True
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    # An extended resource has a domain.
    return any("/" in name for one in containers for name in (one.get("resources") or {}).get("limits") or ())


def may_be_wanted(event: Json, since: str) -> bool:
    """`since`: none that happened last before this moment."""
    return moment(event) >= since and about(event).get("kind") in _KINDS | {"Pod"}


def wanted(events: Iterable[Json], pods: Collection[str]) -> Sequence[Json]:
    """The newest of them."""
    found = [one for one in events if about(one).get("kind") != "Pod" or about(one).get("uid") in pods]
    return sorted(found, key=lambda one: (moment(one), one["metadata"]["name"]))[-MOST:]


def about(event: Json) -> dict[str, Any]:
    found: dict[str, Any] = event.get("involvedObject") or {}
    return found


def moment(event: Json) -> str:
    series = event.get("series") or {}
    metadata = event["metadata"]
    found: str = (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or metadata.get("creationTimestamp")
        or ""
    )
    return found
