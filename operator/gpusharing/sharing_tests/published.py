"""What nodes publish, and what the scheduler makes of it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gpusharing.api import names
from gpusharing.api.dra import DeviceClass
from gpusharing.explaining import lean
from gpusharing.planning.fitting import Fleet, rules_of, slice_of
from gpusharing.snapshots.world import Json, World

_TOGETHER: Final = 16
"""Nodes of a group: what one of them publishes concerns no other group."""


class Published:
    def __init__(self, world: World) -> None:
        self._world = world
        self._nodes = lean.Lean(lean.Node).of_objects(world.nodes)
        self._ours: defaultdict[str, list[Json]] = defaultdict(list)
        """By node."""
        self._others: defaultdict[str, list[Json]] = defaultdict(list)
        """Of other drivers, by node; those for several nodes under no name."""
        for one in world.slices:
            node = one["spec"].get("nodeName", "")
            is_ours = node and one["spec"]["driver"] == names.DRIVER
            (self._ours if is_ours else self._others)[node].append(one)
        self._fleets: dict[int, Fleet] = {}
        """By the first node of the group."""
        self._group_of = {one.metadata.name: number - number % _TOGETHER for number, one in enumerate(self._nodes)}
        self._classes: Mapping[str, DeviceClass] = {}

    @property
    def slices(self) -> list[Json]:
        return [one for by_node in (self._others, self._ours) for some in by_node.values() for one in some]

    @property
    def classes(self) -> Mapping[str, DeviceClass]:
        return self._classes

    def of(self, node: str) -> Sequence[Json]:
        """Those of our driver."""
        return self._ours[node]

    def replace(self, node: str, specs: Sequence[Mapping[str, Any]]) -> None:
        self._ours[node] = [
            {"metadata": {"name": f"{node}-{number}"}, "spec": spec} for number, spec in enumerate(specs)
        ]
        self._fleets.pop(self._group_of.get(node, 0), None)

    def use(self, classes: Mapping[str, DeviceClass]) -> None:
        if classes != self._classes:
            self._classes = classes
            self._fleets.clear()

    def fleets(self, *, rather_on: str | None) -> Iterator[Fleet]:
        """All nodes, in groups; the one with this node comes first."""
        preferred = self._group_of.get(rather_on or "")
        firsts = range(0, len(self._nodes), _TOGETHER)
        for first in sorted(firsts, key=lambda one: one != preferred):
            if first not in self._fleets:
                self._fleets[first] = self._fleet(self._nodes[first : first + _TOGETHER])
            yield self._fleets[first]

    def _fleet(self, nodes: Sequence[lean.Node]) -> Fleet:
        where = ["", *(one.metadata.name for one in nodes)]
        slices = [one for name in where for by_node in (self._others, self._ours) for one in by_node.get(name, ())]
        return Fleet(
            nodes=nodes,
            slices=[slice_of(one["metadata"]["name"], one["spec"]) for one in slices],
            classes=self._classes,
            minor=self._world.minor,
            rules=rules_of(self._world),
        )
