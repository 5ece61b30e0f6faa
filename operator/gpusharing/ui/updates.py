"""What has changed on a page since it was sent: server-sent events, with the parts to put in."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from gpusharing.occupancy.fleet import GpuUse, NodeUse
from gpusharing.ui.charts import chart
from gpusharing.ui.pages import Pages
from gpusharing.ui.picture import Picture, Source
from gpusharing.ui.rows import node_rows
from gpusharing.ui.sections import policy_rows, summary, waiting_rows
from gpusharing.ui.viewing import View

_PATIENCE: Final = 10.0
"""Seconds after which a sign of life is sent: then a browser that is gone is noticed."""


def stream(source: Source, view: View, pages: Pages, since: str, source_of_history: str) -> Iterator[bytes]:
    """`since`: the number of the picture that the page shows. Ends when nobody reads it any more."""
    page = _Page(view, pages, source_of_history)
    picture = source.picture()
    page.draw(picture, source)
    if since != str(picture.number):
        page.forget()
    yield from _events(page.draw(picture, source), picture.number)
    while True:
        picture = source.later(picture.number, _PATIENCE)
        yield from _events(page.draw(picture, source), picture.number) or (b": \n\n",)


def _events(messages: list[tuple[str, str]], number: int) -> list[bytes]:
    """`messages`: the name of the event, and its data."""
    return [
        f"id: {number}\nevent: {name}\n".encode()
        + b"".join(b"data: %s\n" % line.encode() for line in data.splitlines() or [""])
        + b"\n"
        for name, data in messages
    ]


@dataclass
class _Page:
    """What a browser has."""

    view: View
    pages: Pages
    source_of_history: str
    _sections: dict[str, Any] = field(default_factory=dict)
    _places: Any = None
    """Which GPUs are shown, in which order."""
    _gpus: dict[tuple[str, int], GpuUse] = field(default_factory=dict)
    _nodes: dict[str, NodeUse] = field(default_factory=dict)

    def forget(self) -> None:
        self._sections.clear()
        self._places = None

    def draw(self, picture: Picture, source: Source) -> list[tuple[str, str]]:
        """What is not as it was, drawn again."""
        root = self.pages.root
        parts: list[str] = []
        events: list[tuple[str, str]] = []
        values: dict[str, tuple[Any, ...]] = {
            "clock": (picture.fleet.taken_at,),
            "notes": (picture.problem, picture.fleet.notes),
            "summary": (summary(picture.fleet),),
            "waiting": (waiting_rows(picture.fleet),),
            "policies": (policy_rows(picture.policies),),
            "namespaces": (picture.fleet.namespaces,),
            "history": (len(source.samples), source.samples[-1:]),
        }
        for name, value in values.items():
            if self._sections.get(name) == value:
                continue
            self._sections[name] = value
            parts.append(self._part(name, picture, source, value))
            if name in {"waiting", "policies", "history"}:
                events.append((name, ""))
        rows = self._rows(picture, root)
        fleet, gpus = rows
        messages = [("message", "\n".join([*parts, *fleet]))] if parts or fleet else []
        if gpus:
            messages.append(("message", "\n".join(row for _, row in gpus)))
        return [*messages, *((name, "") for name, _ in gpus if name), *events]

    def _part(self, name: str, picture: Picture, source: Source, value: tuple[Any, ...]) -> str:
        root = self.pages.root
        arguments: dict[str, tuple[Any, ...]] = {
            "clock": (picture,),
            "notes": (picture,),
            "summary": (value[0], root, self.view, False),
            "waiting": (value[0], root, False),
            "policies": (value[0], root, False),
            "namespaces": (value[0], root, False),
        }
        if name == "history":
            return self.pages.part(name, chart(source.samples), root, self.source_of_history, is_update=True)
        return self.pages.part(name, *arguments[name], is_update=True)

    def _rows(self, picture: Picture, root: str) -> tuple[list[str], list[tuple[str, str]]]:
        """The whole table if other GPUs are shown than before; otherwise rows, each with its event. Rows of a table
        are not understood among other parts, so they come in a message of their own."""
        shown = self.view.shown(picture.fleet)
        places = [(node.name, [gpu.slot for gpu in gpus]) for node, gpus in shown.nodes], shown.total
        before, self._gpus = self._gpus, {(gpu.node, gpu.slot): gpu for _, gpus in shown.nodes for gpu in gpus}
        nodes, self._nodes = self._nodes, {node.name: node for node, _ in shown.nodes}
        is_new, self._places = places != self._places, places
        changed = [(node, gpus, [gpu for gpu in gpus if before.get((gpu.node, gpu.slot)) != gpu]) for node, gpus in shown.nodes]
        drawn: list[tuple[str, str]] = []
        for node, gpus, others in changed:
            if is_new or (not others and nodes.get(node.name) == node):
                continue
            rows = node_rows(node, gpus)
            drawn.append((rows.id, self.pages.part("node_head", rows, root, False, is_update=True)))
            ids = {(gpu.node, gpu.slot) for gpu in others}
            for gpu, row in zip(gpus, rows.gpus, strict=True):
                if (gpu.node, gpu.slot) in ids:
                    drawn.append((row.id, self.pages.part("gpu_row", row, root, False, is_update=True)))
        if not is_new:
            return [], drawn
        rows_ = [node_rows(node, gpus) for node, gpus in shown.nodes]
        return [self.pages.part("fleet", shown, rows_, root, self.view, False, is_update=True)], []
