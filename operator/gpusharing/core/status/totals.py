"""What all nodes together contribute to the status of one policy."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpusharing.api.sharing.policy_status import LaggingNode
from gpusharing.core.rollout.plan import NodePlan
from gpusharing.core.status.contribution import Contribution, RefusedOffer


@dataclass(slots=True)
class Totals:
    """Counts, and sentences in the order of the nodes' names."""

    selected: int = 0
    """Nodes."""
    ready: int = 0
    """Nodes on which everything that was won is in force."""
    winning: int = 0
    """Selected nodes on which something was won."""
    won: int = 0
    """GPUs."""
    coming: int = 0
    """GPUs that will be won when nodes are not held back any more."""
    held_back: int = 0
    """Nodes."""
    changing: int = 0
    """Nodes."""
    moving: int = 0
    """Nodes that are changing, and do not fail."""
    broken: int = 0
    """Nodes with GPUs that fail."""
    counted: int = 0
    """Nodes on which GPUs that were won are offered in modes that exclude each other."""
    places: int = 0
    clients: int = 0
    without_offers: int = 0
    """GPUs that were won, and can provide none of the offers."""
    lost: list[str] = field(default_factory=list)
    lagging: list[LaggingNode] = field(default_factory=list)
    failing: list[str] = field(default_factory=list)
    not_evicted: list[str] = field(default_factory=list)
    planned: list[NodePlan] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    refused: list[RefusedOffer] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)


def fold(nodes: Mapping[str, Contribution]) -> Totals:
    """`nodes`: by their names."""
    totals = Totals()
    for _, node in sorted(nodes.items()):
        _add(totals, node)
    return totals


def _add(totals: Totals, node: Contribution) -> None:
    totals.selected += node.selected
    totals.ready += node.is_ready
    totals.winning += node.selected and node.won > 0
    totals.won += node.won
    totals.coming += node.coming
    totals.held_back += node.held_back
    totals.changing += node.changing
    totals.moving += node.changing and not node.stops
    totals.broken += bool(node.failing)
    totals.counted += node.counted
    totals.places += node.places
    totals.clients += node.clients
    totals.without_offers += node.without_offers
    totals.lost += node.lost
    totals.failing += node.failing
    totals.not_evicted += node.not_evicted
    totals.planned += (node.planned,) if node.planned else ()
    totals.lagging += (node.lagging,) if node.lagging else ()
    totals.undecided += (node.undecided,) if node.undecided else ()
    if node.selected:
        totals.failed += node.failed
        totals.refused += node.refused
