"""What has changed on a page since it was sent: server-sent events, with the parts to put in."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from gpusharing.occupancy.fleet import GpuUse, NodeUse
from gpusharing.ui.charts import chart
from gpusharing.ui.pages import Pages
from gpusharing.ui.picture import Picture, Source
from gpusharing.ui.rows import NodeRows, node_rows
from gpusharing.ui.sections import policy_rows, summary, waiting_rows
from gpusharing.ui.viewing import Shown, View

_PATIENCE: Final = 2.0
"""Seconds after which a sign of life is sent: then a browser that is gone is noticed, and makes room for others."""


class Message(NamedTuple):
    event: str
    data: str = ""


def stream(source: Source, view: View, pages: Pages, since: str, source_of_history: str) -> Iterator[bytes]:
    """`since`: the number of the picture that the page shows. Ends when nobody reads it any more."""
    page = Page(view, pages, source_of_history)
    picture = source.picture()
    if since == str(picture.number):
        page.is_shown(picture, source)
    while True:
        messages = page.update(picture, source)
        yield b"".join(_encoded(one, picture.number) for one in messages) or b": \n\n"
        picture = source.later(picture.number, _PATIENCE)


def _encoded(message: Message, number: int) -> bytes:
    data = "".join(f"data: {line}\n" for line in message.data.splitlines() or [""])
    return f"id: {number}\nevent: {message.event}\n{data}\n".encode()


class _Section(NamedTuple):
    """A part beside the GPUs: it is drawn again when its values are others."""

    values: tuple[Any, ...]
    draw: Callable[[], str]


class Page:
    """What a browser has."""

    def __init__(self, view: View, pages: Pages, source_of_history: str) -> None:
        self._view = view
        self._pages = pages
        self._source_of_history = source_of_history
        self._sections: dict[str, tuple[Any, ...]] = {}
        self._places: object = None
        """Which GPUs are shown, in which order."""
        self._gpus: dict[tuple[str, int], GpuUse] = {}
        self._nodes: dict[str, NodeUse] = {}

    def is_shown(self, picture: Picture, source: Source) -> None:
        self._sections = {name: section.values for name, section in self._all(picture, source).items()}
        self._keep(self._view.shown(picture.fleet))

    def update(self, picture: Picture, source: Source) -> Sequence[Message]:
        """What is not as it was, drawn again. Details that are open hear of it by an event of their own."""
        sections = self._all(picture, source)
        changed = [name for name, section in sections.items() if self._sections.get(name) != section.values]
        self._sections = {name: section.values for name, section in sections.items()}
        drawn = [sections[name].draw() for name in changed]
        shown, rows = self._view.shown(picture.fleet), dict[str, str]()
        if _places(shown) == self._places:
            rows = dict(self._rows(shown))
        else:
            nodes = [node_rows(node, gpus) for node, gpus in shown.nodes]
            drawn.append(self._part("fleet", shown, nodes, self._pages.root, self._view, False))
        self._keep(shown)
        # Rows of a table are not understood among other parts, so they come by themselves.
        messages = [Message("message", "\n".join(parts)) for parts in (drawn, rows.values()) if parts]
        return [*messages, *(Message(name) for name in (*changed, *rows))]

    def _keep(self, shown: Shown) -> None:
        self._places = _places(shown)
        self._gpus = {(gpu.node, gpu.slot): gpu for _, gpus in shown.nodes for gpu in gpus}
        self._nodes = {node.name: node for node, _ in shown.nodes}

    def _rows(self, shown: Shown) -> Iterator[tuple[str, str]]:
        root = self._pages.root
        for node, gpus in shown.nodes:
            if self._nodes.get(node.name) == node:
                continue
            rows: NodeRows = node_rows(node, gpus)
            yield rows.id, self._part("node_head", rows, root, False)
            for gpu, row in zip(gpus, rows.gpus, strict=True):
                if self._gpus.get((gpu.node, gpu.slot)) != gpu:
                    yield row.id, self._part("gpu_row", row, root, False)

    def _all(self, picture: Picture, source: Source) -> dict[str, _Section]:
        root, fleet, samples = self._pages.root, picture.fleet, source.samples
        sums, waiting, policies = summary(fleet), waiting_rows(fleet), policy_rows(picture.policies)
        return {
            "clock": self._section("clock", fleet.taken_at, arguments=(picture,)),
            "notes": self._section("notes", picture.problem, fleet.notes, arguments=(picture,)),
            "summary": self._section("summary", sums, arguments=(sums, root, self._view, False)),
            "waiting": self._section("waiting", waiting, arguments=(waiting, root, False)),
            "policies": self._section("policies", policies, arguments=(policies, root, False)),
            "namespaces": self._section("namespaces", fleet.namespaces, arguments=(fleet.namespaces, root, False)),
            "history": _Section(
                tuple(samples[-1:]),
                lambda: self._part("history", chart(samples), root, self._source_of_history),
            ),
        }

    def _section(self, name: str, *values: Any, arguments: tuple[Any, ...]) -> _Section:
        return _Section(values, lambda: self._part(name, *arguments))

    def _part(self, name: str, *arguments: Any) -> str:
        return self._pages.part(name, *arguments, is_update=True)


def _places(shown: Shown) -> object:
    return [(node.name, [gpu.slot for gpu in gpus]) for node, gpus in shown.nodes], shown.total
