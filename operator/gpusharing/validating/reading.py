"""YAML and JSON as trees that know where each of their parts stands.

Files may come from anybody: their size, their depth and what their aliases stand for are bounded, and nothing here
recurses into them while they are read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import yaml

from gpusharing.findings import validating
from gpusharing.validating import scalars
from gpusharing.validating.problems import Path, Problem

LARGEST: Final = 16 * 1024 * 1024
"""Bytes of a file. Kubernetes takes objects of at most 3 MiB."""
DEEPEST: Final = 100
_MOST_NODES: Final = 1_000_000
"""Of a file, with all that its aliases stand for."""

# libyaml where it is there: ten times as fast.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STRING: Final = "tag:yaml.org,2002:str"
_MERGE: Final = "<<"


class Mark(NamedTuple):
    """Both from 1, as people count."""

    line: int
    column: int


@dataclass(slots=True, eq=False)
class Node:
    """A part of a document. Aliases of one anchor are one node."""

    mark: Mark
    value: Any
    """Of a scalar; of others, a dict of nodes by key or a list of nodes."""
    start: int = 0
    end: int = 0
    """In the text of the file."""
    keys: dict[str, Mark] = field(default_factory=dict)
    weight: int = 1
    """How many nodes it is, with all that aliases stand for."""
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Document:
    """One of the documents of a file, or one object of a List."""

    root: Node
    value: Any
    """As Kubernetes decodes it from JSON."""
    repeated: tuple[Path, ...] = ()
    """Keys that stand twice in one mapping."""

    def mark(self, path: Path, *, at_key: bool = False) -> Mark:
        """Where a part stands; if there is no such part, where the innermost one around it does."""
        node, mark = self.root, self.root.mark
        for part in path:
            if isinstance(part, str) and isinstance(node.value, dict) and part in node.value:
                mark = node.keys[part]
                node = node.value[part]
            elif isinstance(part, int) and isinstance(node.value, list) and part < len(node.value):
                node = node.value[part]
                mark = node.mark
            else:
                return mark
        is_scalar = not isinstance(node.value, dict | list)
        return node.mark if is_scalar and not at_key else mark

    def node(self, path: Path) -> Node | None:
        node = self.root
        for part in path:
            if isinstance(node.value, dict | list):
                try:
                    node = node.value[part]  # type: ignore[index]
                except (KeyError, IndexError, TypeError):
                    return None
            else:
                return None
        return node


class UnreadableError(Exception):
    def __init__(self, message: str, mark: Mark) -> None:
        super().__init__(message)
        self.mark = mark


def documents(text: str) -> Iterator[Document]:
    """Those that are not empty. Raises UnreadableError, after those that stand before what cannot be read."""
    if len(text) > LARGEST:
        raise UnreadableError(f"the file has more than {LARGEST // 1024**2} MiB", Mark(1, 1))
    reader = _Reader()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            root = reader.take(event)
            if root is not None and root.value is not None:
                yield Document(root, plain(root), tuple(reader.repeated))
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark or error.context_mark
        raise UnreadableError(error.problem or "not YAML", _mark(at) if at else Mark(1, 1)) from None
    except yaml.YAMLError as error:
        raise UnreadableError(str(error).replace("\n", " "), Mark(1, 1)) from None


def plain(node: Node) -> Any:
    """The value without its marks."""
    if isinstance(node.value, dict):
        return {key: plain(item) for key, item in node.value.items()}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


def items_of(document: Document) -> Iterator[Document]:
    """The objects of a List; otherwise the document itself."""
    value = document.value
    if isinstance(value, dict) and value.get("kind") == "List" and isinstance(value.get("items"), list):
        for number, item in enumerate(value["items"]):
            at: Path = ("items", number)
            repeated = tuple(path[2:] for path in document.repeated if path[:2] == at)
            node = document.node(at)
            if node is not None:
                yield Document(node, item, repeated)
    else:
        yield document


@dataclass(slots=True)
class _Open:
    """A mapping or a list of which not everything was read yet."""

    node: Node
    anchor: str | None
    key: str | None = None
    """The one whose value comes next."""
    awaits_key: bool = True
    merged: list[Node] = field(default_factory=list)


class _Reader:
    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._nodes = 0
        self.repeated: list[Path] = []

    def take(self, event: yaml.Event) -> Node | None:
        """The root of a document, when it is complete."""
        match event:
            case yaml.DocumentStartEvent():
                self._open, self._anchors, self.repeated = [], {}, []
            case yaml.ScalarEvent():
                return self._put(_scalar(event), event.anchor, event)
            case yaml.AliasEvent():
                return self._alias(event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                if len(self._open) >= DEEPEST:
                    raise UnreadableError(f"nested more than {DEEPEST} levels deep", _mark(event.start_mark))
                value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
                node = Node(_mark(event.start_mark), value, start=_index(event.start_mark))
                self._open.append(_Open(node, event.anchor))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                closed = self._open.pop()
                closed.node.end = _index(event.end_mark)
                _merge(closed)
                return self._put(closed.node, closed.anchor, event)
        return None

    def _alias(self, event: yaml.AliasEvent) -> Node | None:
        node = self._anchors.get(event.anchor or "")
        if node is None:
            raise UnreadableError(f"no anchor is named {event.anchor} before this", _mark(event.start_mark))
        if len(self._open) + node.depth > DEEPEST:
            raise UnreadableError(f"nested more than {DEEPEST} levels deep", _mark(event.start_mark))
        return self._put(node, None, event)

    def _put(self, node: Node, anchor: str | None, event: yaml.Event) -> Node | None:
        if anchor is not None:
            self._anchors[anchor] = node
        if isinstance(event, yaml.AliasEvent | yaml.ScalarEvent):
            self._nodes += node.weight
        else:
            self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise UnreadableError(f"more than {_MOST_NODES:,} values, with all aliases", _mark(event.start_mark))
        if not self._open:
            return node
        around = self._open[-1]
        if isinstance(around.node.value, list):
            around.node.value.append(node)
        elif around.awaits_key:
            self._begin_entry(around, node, event)
            return None
        else:
            self._end_entry(around, node)
        around.node.weight += node.weight
        around.node.depth = max(around.node.depth, node.depth + 1)
        return None

    def _begin_entry(self, around: _Open, key: Node, event: yaml.Event) -> None:
        if isinstance(key.value, dict | list):
            raise UnreadableError("the key of a mapping must be a string", _mark(event.start_mark))
        name = _key(key.value)
        if name in around.node.value and name != _MERGE:
            self.repeated.append((*self._path(), name))
        around.key, around.awaits_key = name, False
        around.node.keys[name] = _mark(event.start_mark)

    def _end_entry(self, around: _Open, node: Node) -> None:
        if around.key == _MERGE:
            around.merged.append(node)
        elif around.key is not None:
            around.node.value[around.key] = node
        around.awaits_key = True

    def _path(self) -> Path:
        around = self._open[:-1]
        return tuple(len(one.node.value) if isinstance(one.node.value, list) else one.key or "" for one in around)


def _merge(closed: _Open) -> None:
    """What the mapping says itself comes before what it takes over."""
    for node in closed.merged:
        for one in node.value if isinstance(node.value, list) else [node]:
            if not isinstance(one.value, dict):
                raise UnreadableError("<< needs a mapping", closed.node.mark)
            for key, item in one.value.items():
                if key not in closed.node.value:
                    closed.node.value[key] = item
                    closed.node.keys[key] = one.keys[key]
    closed.node.keys.pop(_MERGE, None)


def _scalar(event: yaml.ScalarEvent) -> Node:
    is_plain = not event.style and event.tag != _STRING
    value = scalars.resolve(event.value) if is_plain else event.value
    return Node(_mark(event.start_mark), value, start=_index(event.start_mark), end=_index(event.end_mark))


def _key(value: Any) -> str:
    """As it becomes one of JSON."""
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case _:
            return str(value)


def _index(mark: Any) -> int:
    index: int = mark.index
    return index


def _mark(mark: Any) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


def unreadable(error: UnreadableError) -> Problem:
    return Problem(validating.UNREADABLE, (), str(error))
