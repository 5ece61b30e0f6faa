"""The fleet as it becomes, object by object: of a change, only the nodes that it concerns are looked at again."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from gpusharing.api import names
from gpusharing.explaining.lean import Claim
from gpusharing.explaining.scene import Scene
from gpusharing.findings.finding import Finding
from gpusharing.occupancy.fleet import Fleet, NodeUse, Waiting
from gpusharing.occupancy.of_scene import node_use, parts_by_node
from gpusharing.occupancy.sharing import NONE, NodeSharing
from gpusharing.occupancy.sums import summed
from gpusharing.occupancy.usage import Usage
from gpusharing.snapshots.world import World


class Gathered:
    """Used by one thread."""

    def __init__(self) -> None:
        self._sharings: dict[str, NodeSharing] = {}
        self._claims: defaultdict[str, dict[str, Claim]] = defaultdict(dict)
        """By node and uid."""
        self._nodes: dict[str, NodeUse] = {}
        self._changed: set[str] = set()
        self._assumed: tuple[object, ...] = ()
        """What all nodes depend on."""

    def put_sharing(self, old: NodeSharing | None, new: NodeSharing | None) -> None:
        for one in (old, new):
            if one is not None:
                self._sharings.pop(one.metadata.name, None)
                self._changed.add(one.metadata.name)
        if new is not None:
            self._sharings[new.metadata.name] = new

    def put_claim(self, old: Claim | None, new: Claim | None) -> None:
        for node in _nodes_of(old):
            self._claims[node].pop(old.metadata.uid if old else "", None)
            self._changed.add(node)
        for node in _nodes_of(new):
            if new is not None:
                self._claims[node][new.metadata.uid] = new
            self._changed.add(node)

    def fleet(
        self, world: World, usage: Usage, *, waiting: Sequence[Waiting] = (), notes: Iterable[Finding] = ()
    ) -> Fleet:
        """`world`: without NodeSharings and claims, but with what of them may be read."""
        assumed = (world.unread, world.only_namespace, usage)
        if assumed != self._assumed:
            self._assumed = assumed
            self._changed |= self._sharings.keys() | self._claims.keys() | self._nodes.keys()
        changed, self._changed = self._changed, set()
        claims = {claim.metadata.uid: claim for node in changed for claim in self._claims.get(node, {}).values()}
        scene = Scene(world=world, visible_claims=list(claims.values()))
        parts = parts_by_node(scene)
        for name in changed:
            if name in self._sharings or name in parts:
                sharing = self._sharings.get(name, NONE)
                self._nodes[name] = node_use(name, sharing, parts.get(name, ()), scene, usage)
            else:
                self._nodes.pop(name, None)
        nodes = tuple(self._nodes[name] for name in sorted(self._nodes))
        return summed(Fleet(taken_at=world.taken_at, nodes=nodes, waiting=tuple(waiting), notes=tuple(notes)))


def _nodes_of(claim: Claim | None) -> Iterator[str]:
    if claim is not None:
        yield from {names.node_of_pool(result.pool) for result in claim.results}
