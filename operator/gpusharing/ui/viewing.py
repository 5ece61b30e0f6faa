"""Which part of a fleet a page shows: a thousand nodes on one would freeze a browser."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlencode

from gpusharing.occupancy.fleet import Fleet, GpuUse, NodeUse
from gpusharing.ui.bars import STYLES
from gpusharing.ui.rows import IDLE, PROBLEM, state

NODES: Final = 20
"""Of a page."""
ALL: Final = "all"
STATES: Final = (*STYLES.values(), IDLE, PROBLEM)
_LONGEST: Final = 200


class Shown(NamedTuple):
    nodes: Sequence[tuple[NodeUse, Sequence[GpuUse]]]
    total: int
    """Nodes of all pages."""
    pages: int
    page: int


@dataclass(frozen=True, slots=True)
class View:
    text: str = ""
    """Part of the name of a node, a model, a policy, a namespace, a claim or a pod."""
    show: str = ALL
    """GPUs in this state."""
    page: int = 1

    @classmethod
    def of_query(cls, query: Mapping[str, str]) -> Self:
        """What makes no sense is as if it were not there."""
        show, page = query.get("show", ALL), query.get("page", "")
        return cls(
            query.get("q", "").strip()[:_LONGEST],
            show if show in STATES else ALL,
            int(page) if page.isdecimal() and len(page) < 6 else 1,
        )

    def query(self, **changes: Any) -> str:
        one = replace(self, **{"page": 1, **changes})
        fields = {"q": one.text, "show": "" if one.show == ALL else one.show, "page": one.page if one.page > 1 else ""}
        return urlencode({name: value for name, value in fields.items() if value})

    def shown(self, fleet: Fleet) -> Shown:
        found = [(node, gpus) for node in fleet.nodes if (gpus := self._gpus(node)) or self._is_empty(node)]
        pages = max(-(-len(found) // NODES), 1)
        page = min(max(self.page, 1), pages)
        return Shown(found[(page - 1) * NODES : page * NODES], len(found), pages, page)

    def everything(self, fleet: Fleet) -> Shown:
        return Shown([(node, node.gpus) for node in fleet.nodes], len(fleet.nodes), 1, 1)

    def _gpus(self, node: NodeUse) -> Sequence[GpuUse]:
        if self.show == ALL and not self.text:
            return node.gpus
        wanted = self.text.casefold()
        return [
            gpu
            for gpu in node.gpus
            if (self.show == ALL or state(gpu) == self.show)
            and (not wanted or any(wanted in word.casefold() for word in _words(gpu)))
        ]

    def _is_empty(self, node: NodeUse) -> bool:
        """A node without GPUs, which is shown for what is wrong with it."""
        return not node.gpus and self.show in {ALL, PROBLEM} and self.text.casefold() in node.name.casefold()


def _words(gpu: GpuUse) -> Iterator[str]:
    yield from (gpu.node, gpu.model, gpu.uuid, gpu.policy or "")
    for holder in gpu.holders:
        yield f"{holder.namespace}/{holder.claim}"
        yield from (f"{holder.namespace}/{pod}" for pod in holder.pods)
