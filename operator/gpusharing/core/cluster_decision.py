"""What is decided for the cluster as a whole, whatever its nodes and claims do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusharing.api.dra import DeviceClass, Namespace
from gpusharing.core.acceptance import Candidate
from gpusharing.core.intents import Intent
from gpusharing.core.world import Setup


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What that is decided on. Neither nodes nor claims are in it: they change all the time."""

    candidates: Sequence[Candidate]
    """In the order of their names."""
    classes: Mapping[str, DeviceClass]
    namespaces: Mapping[str, Namespace]
    setup: Setup


def cluster_intents(cluster: Cluster) -> list[Intent]:  # noqa: ARG001 (nothing is decided on it yet)
    return []
