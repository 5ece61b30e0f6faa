"""Moves fields together with their comments."""

from collections.abc import Iterable
from typing import Any

from ruamel.yaml.comments import CommentedMap


def position(mapping: CommentedMap, key: str) -> int:
    return list(mapping).index(key)


def take(mapping: CommentedMap, key: str) -> tuple[Any, Any]:
    """The value and its comments."""
    return mapping.pop(key), mapping.ca.items.pop(key, None)


def put(mapping: CommentedMap, key: str, taken: tuple[Any, Any]) -> None:
    value, comments = taken
    mapping[key] = value
    if comments is not None:
        mapping.ca.items[key] = comments


def gather(mapping: CommentedMap, keys: Iterable[str], *, into: str) -> None:
    """Moves those of the keys that are there below a new one, which takes the place of the first."""
    there = [key for key in mapping if key in frozenset(keys)]
    place = position(mapping, there[0])
    inner = CommentedMap()
    for key in there:
        put(inner, key, take(mapping, key))
    if mapping.fa.flow_style():
        inner.fa.set_flow_style()
    mapping.insert(place, into, inner)


def spread(mapping: CommentedMap, key: str) -> None:
    """The reverse: what is below the key comes in its place."""
    place = position(mapping, key)
    inner, comments = take(mapping, key)
    for number, name in enumerate(list(inner)):
        value, own = take(inner, name)
        mapping.insert(place + number, name, value)
        if own is not None:
            mapping.ca.items[name] = own
    if comments is not None and inner.ca.comment is None and len(mapping) > place:
        mapping.ca.items.setdefault(list(mapping)[place], comments)
