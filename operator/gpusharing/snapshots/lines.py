"""A snapshot of which each object stays the line that it was, until somebody looks at it.

A cluster of a thousand nodes has 60 MB of them, which take ten times as much as objects of Python. Who needs all of
them decodes one after the other.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, overload

from gpusharing.snapshots import archive, file
from gpusharing.snapshots.file import SnapshotError
from gpusharing.snapshots.world import Json, World

_FIELD: Final = re.compile(rb'    "([a-z_]+)": \[')
_OBJECTS: Final = b'  "objects": {'
_OBJECT: Final = b"      {"
_ENDS: Final = frozenset((b"    ],", b"    ]", b"  }", b"}", b""))


class Lines(Sequence[Json]):
    """Objects as JSON texts."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []

    def extend(self, objects: Iterable[Json], /) -> None:
        self.texts += [_compact(one) for one in objects]

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> Json: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Json]: ...

    def __getitem__(self, index: int | slice) -> Json | Sequence[Json]:
        return [_object(one) for one in self.texts[index]] if isinstance(index, slice) else _object(self.texts[index])

    def __iter__(self) -> Iterator[Json]:
        return map(_object, self.texts)


def _object(text: bytes) -> Json:
    """Raises SnapshotError: lines of a file are not looked at before."""
    try:
        found: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SnapshotError(f"an object is not JSON that can be read: {error}") from error
    if not file.has_name(found):
        raise SnapshotError("an object has no metadata.name")
    return found


def _compact(one: Json) -> bytes:
    return json.dumps(one, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def loads(data: bytes) -> World:
    """Of any snapshot, also of one in a bundle; of one that `file.dumps` has written, objects stay lines. Raises
    SnapshotError."""
    if archive.is_archive(data):
        try:
            data = archive.snapshot_in(data)
        except archive.ArchiveError as error:
            raise SnapshotError(str(error)) from error
    found = _read(data)
    if found is None:
        return file.loads(data.decode(errors="replace"))
    head, lists = found
    empty = file.from_json({**head, "objects": {name: [] for name in lists}})
    known: dict[str, Any] = dict(lists)
    return World(
        minor=empty.minor,
        taken_at=empty.taken_at,
        unread=empty.unread,
        only_namespace=empty.only_namespace,
        served=empty.served,
        **known,
    )


def _read(data: bytes) -> tuple[dict[str, Any], dict[str, Lines]] | None:
    """What stands before the objects, and the objects. None: somebody else has written it."""
    start = data.find(_OBJECTS)
    if start < 0:
        return None
    try:
        head = json.loads(data[:start].rstrip().removesuffix(b",") + b"}")
    except (ValueError, RecursionError):
        return None
    lists: dict[str, Lines] = {}
    current = Lines()
    for line in _lines(data, start + len(_OBJECTS)):
        if line.startswith(_OBJECT):
            current.texts.append(line.removesuffix(b",").strip())
        elif field := _FIELD.fullmatch(line):
            current = lists[field[1].decode()] = Lines()
        elif line not in _ENDS:
            return None
    return head, lists


def _lines(data: bytes, start: int) -> Iterator[bytes]:
    """One after the other: a list of all would be the file once more."""
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end + 1
