"""What all nodes together add to the status of one policy, kept so that the share of one can be exchanged."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from gpusharing.api.sharing.node_spec import RefusalReason
from gpusharing.api.sharing.policy_status import LaggingNode
from gpusharing.core.rollout.plan import NodePlan
from gpusharing.core.status.contribution import NodeShare
from gpusharing.core.text import SHOWN

T = TypeVar("T")


@dataclass(slots=True)
class ByNode(Generic[T]):
    """Sentences about some nodes: how many, and the first of them in the order of the nodes' names."""

    count: int = 0
    _said: dict[str, Sequence[T]] = field(default_factory=dict)
    _names: list[str] = field(default_factory=list)

    def put(self, node: str, said: Sequence[T]) -> None:
        if said:
            insort(self._names, node)
            self._said[node] = said
            self.count += len(said)

    def drop(self, node: str) -> None:
        said = self._said.pop(node, ())
        if said:
            del self._names[bisect_left(self._names, node)]
            self.count -= len(said)

    def first(self, most: int = SHOWN) -> list[T]:
        """As many as a message shows, or `most`."""
        return list(islice(self._all(), most))

    def _all(self) -> Iterator[T]:
        for node in self._names:
            yield from self._said[node]


@dataclass(slots=True)
class Tally:
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
    """Nodes on which GPUs that were won are offered in ways that exclude each other."""
    places: int = 0
    clients: int = 0
    lost: ByNode[str] = field(default_factory=ByNode)
    lagging: ByNode[LaggingNode] = field(default_factory=ByNode)
    failing: ByNode[str] = field(default_factory=ByNode)
    not_evicted: ByNode[str] = field(default_factory=ByNode)
    planned: ByNode[NodePlan] = field(default_factory=ByNode)
    failed: ByNode[str] = field(default_factory=ByNode)
    refused: ByNode[tuple[RefusalReason, str]] = field(default_factory=ByNode)

    def add(self, node: str, share: NodeShare) -> None:
        self._count(share, 1)
        self.lost.put(node, share.lost)
        self.failing.put(node, share.failing)
        self.not_evicted.put(node, share.not_evicted)
        self.planned.put(node, (share.planned,) if share.planned else ())
        self.lagging.put(node, (share.lagging,) if share.lagging else ())
        if share.selected:
            self.failed.put(node, share.failed)
            self.refused.put(node, share.refused)

    def remove(self, node: str, share: NodeShare) -> None:
        """`share` as it was added."""
        self._count(share, -1)
        for said in (
            self.lost,
            self.failing,
            self.not_evicted,
            self.planned,
            self.lagging,
            self.failed,
            self.refused,
        ):
            said.drop(node)

    def _count(self, share: NodeShare, sign: int) -> None:
        self.selected += sign * share.selected
        self.ready += sign * share.is_ready
        self.winning += sign * (share.selected and share.won > 0)
        self.won += sign * share.won
        self.coming += sign * share.coming
        self.held_back += sign * share.held_back
        self.changing += sign * share.changing
        self.moving += sign * (share.changing and not share.stops)
        self.broken += sign * bool(share.failing)
        self.counted += sign * share.counted
        self.places += sign * share.places
        self.clients += sign * share.clients
