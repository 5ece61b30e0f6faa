"""What a kubelet reports of a container."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusharing.demo.cluster import Json
from gpusharing.kube.clock import now


@dataclass
class ContainerStatus:
    name: str
    image: str
    restarts: int = 0
    state: Mapping[str, Any] = field(default_factory=dict)
    last_state: Mapping[str, Any] = field(default_factory=dict)

    def runs(self) -> None:
        self.state = {"running": {"startedAt": now()}}

    def waits(self, reason: str, message: str) -> None:
        self.last_state = self.state if "terminated" in self.state else self.last_state
        self.state = {"waiting": {"reason": reason, "message": message}}

    def has_ended(self, code: int, message: str) -> None:
        reason = "Error" if code else "Completed"
        self.state = {"terminated": {"exitCode": code, "reason": reason, "message": message, "finishedAt": now()}}

    def as_json(self, resources: Sequence[Json]) -> Json:
        """`resources`: the health of its devices."""
        is_running = "running" in self.state
        return {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "restartCount": self.restarts,
            "ready": is_running,
            "started": is_running,
            "state": self.state,
            "lastState": self.last_state,
            **({"allocatedResourcesStatus": resources} if resources else {}),
        }


def phase(statuses: Collection[ContainerStatus]) -> str:
    """Of their pod."""
    states = [one.state for one in statuses]
    if all("terminated" in one for one in states):
        return "Failed" if any(one["terminated"]["exitCode"] for one in states) else "Succeeded"
    has_begun = any("running" in one or "terminated" in one for one in states)
    return "Running" if has_begun or any(one.last_state for one in statuses) else "Pending"
