"""A file as YAML documents. A document that is not converted stays as it was written, byte by byte."""

import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.composer import MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.nodes import MappingNode, SequenceNode

from gpusharing.converting.remarks import NotConvertibleError, shown

T = TypeVar("T")

# The API server takes objects of 1.5 MiB, and a round trip of so much takes half a minute.
_MOST_CHARACTERS: Final = 1_000_000
_MOST_LEVELS: Final = 50
_MOST_NODES: Final = 100_000
"""With aliases written in full."""

_MARKER: Final = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_EMPTY_LINE: Final = re.compile(r"\s*(#.*|%.*|\.\.\.)?")
_INDENTED_LIST: Final = re.compile(r"^( *)[^\s#-][^#\n]*:[ \t]*(?:#.*)?\n(?:\s*#.*\n)*( *)- ", re.MULTILINE)


class Document(NamedTuple):
    file: str
    line: int
    """Of the file, on which the body begins."""
    marker: str
    """The line `---`, or what of it is not content."""
    body: str

    @property
    def text(self) -> str:
        return self.marker + self.body

    @property
    def is_json(self) -> bool:
        if not self.body.lstrip().startswith("{"):
            return False
        try:
            json.loads(self.body)
        except (ValueError, RecursionError):
            return False
        return True

    def with_its_line_ends(self, text: str) -> str:
        return text.replace("\n", "\r\n") if "\r\n" in self.body else text

    @property
    def is_empty(self) -> bool:
        return all(_EMPTY_LINE.fullmatch(line) for line in self.body.splitlines())

    @property
    def comments_before(self) -> str:
        """Its first lines, as far as they are comments."""
        lines = self.body.splitlines(keepends=True)
        count = next((number for number, line in enumerate(lines) if not re.match(r"\s*(#|$)", line)), len(lines))
        return "".join(lines[:count])


def split(file: str, text: str) -> list[Document]:
    """In YAML, three dashes at the beginning of a line separate documents wherever they stand."""
    starts = [match.start() for match in _MARKER.finditer(text)]
    parts = [text[start:end] for start, end in zip([0, *starts], [*starts, len(text)], strict=True)]
    documents: list[Document] = []
    line = 1
    for part in parts:
        marker = _marker(part)
        documents.append(Document(file, line + marker.count("\n"), marker, part[len(marker) :]))
        line += part.count("\n")
    return [document for document in documents if document.text]


def _marker(part: str) -> str:
    if not _MARKER.match(part):
        return ""
    first, newline, _ = part.partition("\n")
    is_content = not re.fullmatch(r"---[ \t\r]*(#.*)?", first)
    return re.match(r"---[ \t]*", first)[0] if is_content else first + newline  # type: ignore[index]


def load(document: Document) -> Any:
    """Refuses what nobody would write by hand. Values that several aliases name are there several times."""
    if len(document.body) > _MOST_CHARACTERS:
        raise _refused(document, f"it has {len(document.body)} characters, more than {_MOST_CHARACTERS}")
    if "*" in document.body and _attempt(document, lambda: _contains_itself(_yaml().compose(document.body))):
        raise _refused(document, "a value contains itself")
    data = _attempt(document, lambda: _yaml().load(document.body))
    return data if _size(data, document) == _count(data) else _unshared(data)


def _attempt(document: Document, step: Callable[[], T]) -> T:
    try:
        return step()
    except MaxDepthExceededError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise _refused(document, f"it is nested deeper than {_MOST_LEVELS} levels", line) from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _refused(document, f"it is not YAML: {shown(error.problem)}", mark.line if mark else 0) from None
    except Exception as error:  # noqa: BLE001 (the library refuses a 40th of May with whatever its conversion raises)
        raise _refused(document, f"it is not YAML: {shown(error)}") from None


def dump(data: Any, *, like: Document) -> str:
    """In the style of that document."""
    if like.is_json:
        return json.dumps(_plain(data), indent=2) + "\n"
    lists = [match for match in _INDENTED_LIST.finditer(like.body) if len(match[2]) >= len(match[1])]
    indented = sum(len(match[2]) > len(match[1]) for match in lists) * 2 > len(lists)
    yaml = _yaml()
    yaml.indent(mapping=2, sequence=4 if indented else 2, offset=2 if indented else 0)
    written = io.StringIO()
    yaml.dump(data, written)
    return written.getvalue()


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1_000_000
    yaml.max_depth = _MOST_LEVELS
    return yaml


def _refused(document: Document, fact: str, line: int = 0) -> NotConvertibleError:
    return NotConvertibleError(document.file, document.line + line, "", fact, "correct it, or convert it by hand")


def _contains_itself(root: Any) -> bool:
    """Whether a node of the document is below itself."""
    done: set[int] = set()
    above: set[int] = set()

    def visit(node: Any) -> bool:
        if id(node) in done or not isinstance(node, MappingNode | SequenceNode):
            return False
        if id(node) in above:
            return True
        above.add(id(node))
        children = [one for pair in node.value for one in pair] if isinstance(node, MappingNode) else node.value
        found = any(visit(child) for child in children)
        above.discard(id(node))
        done.add(id(node))
        return found

    return visit(root)


def _children(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        yield from node.values()
    elif isinstance(node, list):
        yield from node


def _size(data: Any, document: Document) -> int:
    """The number of lists and mappings with aliases written in full."""
    sizes: dict[int, int] = {}

    def measure(node: Any, level: int) -> int:
        if not isinstance(node, dict | list):
            return 0
        if level > _MOST_LEVELS:
            raise _refused(document, f"it is nested deeper than {_MOST_LEVELS} levels")
        if id(node) not in sizes:
            sizes[id(node)] = 1 + sum(measure(child, level + 1) for child in _children(node))
        if sizes[id(node)] > _MOST_NODES:
            raise _refused(document, f"it has more than {_MOST_NODES} values with its aliases written in full")
        return sizes[id(node)]

    return measure(data, 0)


def _count(data: Any) -> int:
    """The number of lists and mappings as they are written; -1 if merge keys make that another one."""
    seen: set[int] = set()
    waiting = [data]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict | list) or id(node) in seen:
            continue
        if getattr(node, "merge", None):
            return -1
        seen.add(id(node))
        waiting.extend(_children(node))
    return len(seen)


def _unshared(node: Any) -> Any:
    if isinstance(node, CommentedMap):
        fresh: Any = CommentedMap((key, _unshared(value)) for key, value in node.items())
    elif isinstance(node, CommentedSeq):
        fresh = CommentedSeq(_unshared(item) for item in node)
    else:
        return node
    for attribute in ("_yaml_comment", "_yaml_format", "_yaml_line_col"):
        if hasattr(node, attribute):
            setattr(fresh, attribute, getattr(node, attribute))
    return fresh


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        return {str(key): _plain(value) for key, value in node.items()}
    return [_plain(item) for item in node] if isinstance(node, list) else node
