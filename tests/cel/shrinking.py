"""Makes a case that shows a difference small."""

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar

from cel.generator.text import Piece
from cel.oracle_process import Device

_PLAIN = {
    "bool": ("true", "false"), "int": ("0", "1"), "uint": ("0u", "1u"), "double": ("0.0", "1.0"),
    "string": ('""', '"a"'), "bytes": ('b""',), "null": ("null",), "list": ("[]",), "map": ("{}",),
    "optional": ("optional.none()",), "dyn": ("dyn(0)",), "quantity": ('quantity("1")',),
    "semver": ('semver("1.0.0")',), "duration": ('duration("1s")',), "timestamp": ("timestamp(0)",), "index": ("0",),
    "pattern": ('""',), "type": ("int",), "domain": ("device.driver",),
}  # fmt: skip
_TOKEN = re.compile(r"\w*\"(?:\\.|[^\"\\])*\"|\w*'(?:\\.|[^'\\])*'|\w+|\s+|[^\w\s]")
_LONGEST_SPAN = 12

Candidate = TypeVar("Candidate")

StillDiffers: TypeAlias = Callable[[str, Device], bool]
"""Whether an expression shows the same difference on a device."""


def shrink(tree: Piece, device: Device, still_differs: StillDiffers) -> tuple[Piece, Device]:
    """The smallest that is found."""
    while smaller := _first(_smaller_trees(tree), lambda candidate: still_differs(str(candidate), device)):
        tree = smaller
    by_tokens = _with_fewer(_TOKEN.findall(str(tree)), lambda text: still_differs(text, device))
    expression = _with_fewer(list(by_tokens), lambda text: still_differs(text, device))
    while poorer := _first(_poorer_devices(device), lambda candidate: still_differs(expression, candidate)):
        device = poorer
    return Piece(tree.kind, [expression]), device


def _first(candidates: Iterator[Candidate], differs: Callable[[Candidate], bool]) -> Candidate | None:
    return next(filter(differs, candidates), None)


def _smaller_trees(tree: Piece) -> Iterator[Piece]:
    length = len(str(tree))
    for piece in tree.pieces():
        within = list(piece.pieces())[1:]
        same_kind = [other for other in within if other.kind == piece.kind]
        plain = [Piece(piece.kind, [text]) for text in _PLAIN.get(piece.kind.name, ())]
        for replacement in (*plain, *same_kind, *within):
            candidate = tree.replaced(piece, replacement)
            if len(str(candidate)) < length:
                yield candidate


def _with_fewer(parts: list[str], differs: Callable[[str], bool]) -> str:
    for span in range(min(_LONGEST_SPAN, len(parts)), 0, -1):
        start = 0
        while start + span <= len(parts):
            fewer = [*parts[:start], *parts[start + span :]]
            if differs("".join(fewer)):
                parts = fewer
            else:
                start += 1
    return "".join(parts)


def _poorer_devices(device: Device) -> Iterator[Device]:
    for key in device:
        if key != "driver":
            yield {other: value for other, value in device.items() if other != key}
    for group in ("attributes", "capacity"):
        for name in device.get(group, {}):
            yield {**device, group: {other: value for other, value in device[group].items() if other != name}}
