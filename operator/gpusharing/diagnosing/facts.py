"""What `doctor` knows of a cluster. What the API server refused to show is a fact, too."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gpusharing.api import names
from gpusharing.diagnosing.rights import Right
from gpusharing.snapshots.world import Json


class Listed(NamedTuple):
    objects: Sequence[Json] = ()
    unread: str = ""
    """Why they are not known, such as "you may not list nodes"."""


NOTHING: Final = Listed()


class Gates(NamedTuple):
    on: Mapping[str, bool] = {}
    unread: str = ""


NO_GATES: Final = Gates()


@dataclass(frozen=True, kw_only=True)
class ClusterFacts:
    version: Json
    """The API server's /version."""
    served: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Plurals of the kinds, by group and version."""
    gates: Gates = NO_GATES
    nodes: Listed = NOTHING
    """As `lean_node` leaves them."""
    slices: Listed = NOTHING
    """As `lean_slice` leaves them."""
    namespace: str = names.NAMESPACE
    """Where it is installed, or would be."""
    operators: Listed = NOTHING
    """Deployments of the operator."""
    pod_monitors: Listed = NOTHING


class LeaseFacts(NamedTuple):
    name: str
    lease: Json | None = None
    unread: str = ""
    unchanged_for: float = 0
    """Seconds for which it was watched without a renewal; 0: it is fresh."""


class Granted(NamedTuple):
    """What the ServiceAccount of a program may not do."""

    account: str
    refused: Sequence[Right] = ()
    unread: str = ""


class DryRun(NamedTuple):
    """What a guard said to a Lease that it has to refuse."""

    guard: str
    is_refused: bool = False
    unread: str = ""


@dataclass(frozen=True, kw_only=True)
class InstallationFacts:
    namespace: str
    definitions: Listed = NOTHING
    guards: Listed = NOTHING
    bindings: Listed = NOTHING
    dry_runs: Sequence[DryRun] = ()
    classes: Listed = NOTHING
    lease: LeaseFacts
    granted: Sequence[Granted] = ()
    daemon_sets: Listed = NOTHING
    agents: Listed = NOTHING
    """Their pods."""
    node_sharings: Listed = NOTHING
    """As `lean_node_sharing` leaves them."""


def lean_node(node: Json) -> Json:
    metadata, status = node["metadata"], node.get("status") or {}
    return {
        "metadata": {key: metadata[key] for key in ("name", "labels") if key in metadata},
        "status": {key: status[key] for key in ("nodeInfo", "allocatable") if key in status},
    }


def lean_slice(slice_: Json) -> Json:
    """Without devices, of which there may be hundreds of thousands."""
    spec = slice_.get("spec") or {}
    return {
        "metadata": {"name": slice_["metadata"]["name"]},
        "spec": {key: spec[key] for key in ("driver", "nodeName", "pool") if key in spec},
    }


def lean_node_sharing(sharing: Json) -> Json:
    """Without claims, and of GPUs only their health, and what they offer."""
    spec, status = sharing.get("spec") or {}, sharing.get("status")
    if status is not None:
        gpus = [
            {key: gpu[key] for key in ("slot", "pool", "conditions", "published") if key in gpu}
            for gpu in status.get("gpus") or ()
        ]
        status = {"gpus": gpus, "conditions": status.get("conditions") or ()}
    return {
        "metadata": {"name": sharing["metadata"]["name"]},
        "spec": {
            "gpus": [
                {key: gpu[key] for key in ("offers", "restricted") if key in gpu} for gpu in spec.get("gpus") or ()
            ]
        },
        **({"status": status} if status is not None else {}),
    }
