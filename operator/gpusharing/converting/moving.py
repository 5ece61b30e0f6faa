"""Moves fields together with their comments."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq


def position(mapping: CommentedMap, key: str) -> int:
    return list(mapping).index(key)


def take(mapping: CommentedMap, key: str) -> tuple[Any, Any]:
    """The value and its comments."""
    return mapping.pop(key), mapping.ca.items.pop(key, None)


def put(mapping: CommentedMap, key: str, taken: tuple[Any, Any], *, place: int) -> None:
    value, comments = taken
    mapping.insert(place, key, value)
    if comments is not None:
        mapping.ca.items[key] = comments


def rename(mapping: CommentedMap, key: str, new: str) -> None:
    place = position(mapping, key)
    put(mapping, new, take(mapping, key), place=place)


def gather(mapping: CommentedMap, keys: Iterable[str], *, into: str) -> None:
    """Moves those of the keys that are there below a new one, which takes the place of the first."""
    there = [key for key in mapping if key in frozenset(keys)]
    place = position(mapping, there[0])
    inner = CommentedMap()
    for number, key in enumerate(there):
        put(inner, key, take(mapping, key), place=number)
    # What stands behind the last one is about what comes next, out here.
    for tokens in [list(_tokens(inner, key)) for key in there[:-1]]:
        for token in tokens:
            token.value = re.sub(r"\n( *)#", r"\n\1  #", token.value)
    if mapping.fa.flow_style():
        inner.fa.set_flow_style()
    mapping.insert(place, into, inner)


def spread(mapping: CommentedMap, key: str) -> None:
    """The reverse: what is below the key comes in its place."""
    place = position(mapping, key)
    inner, comments = take(mapping, key)
    for number, name in enumerate(list(inner)):
        put(mapping, name, take(inner, name), place=place + number)
    if comments and len(mapping) > place:
        # Those in front of the first value stand in front of its key now.
        first = list(mapping)[place]
        own = mapping.ca.items.get(first) or [None] * 4
        mapping.ca.items[first] = [own[0], comments[1] or comments[3] or own[1], own[2] or comments[2], own[3]]


def _tokens(parent: CommentedMap | CommentedSeq, key: Any) -> Iterator[Any]:
    """All comments of a value."""
    for part in parent.ca.items.get(key) or ():
        yield from part if isinstance(part, list) else filter(None, [part])
    value = parent[key]
    if isinstance(value, CommentedMap | CommentedSeq):
        for inner in value if isinstance(value, CommentedMap) else range(len(value)):
            yield from _tokens(value, inner)
