"""Several tables read as one, and nothing lost: the later of two equal names would silently replace the earlier."""

from collections.abc import Mapping
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def merged(*tables: Mapping[Key, Value]) -> dict[Key, Value]:
    """Raises ValueError if two tables have the same key."""
    entries: dict[Key, Value] = {}
    for table in tables:
        twice = sorted(map(str, entries.keys() & table.keys()))
        if twice:
            raise ValueError(f"declared twice: {', '.join(twice)}")
        entries |= table
    return entries
