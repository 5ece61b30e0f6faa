"""Which entries of the guards of tenants were seen to be in force on all API servers.

An API server goes by a guard as it was in some revision, and says which. An entry is in force there if it has stood in
the guard since that revision or an older one.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Entry(NamedTuple):
    """What a guard knows of a policy: one line of one of its variables."""

    variable: str
    key: str
    literal: str


SeenEntries = Mapping[str, frozenset[Entry]]
"""By guard."""

Standing = Mapping[Entry, int]
"""The entries of a guard, each with the revision since which it has stood there without a break."""


def standing(before: Standing, entries: Collection[Entry], revision: int) -> Standing:
    """`before`: in the version of the guard that was known last. `revision`: of the guard now; 0: it has none, and
    nobody can see by which version an API server goes."""
    return {entry: before.get(entry) or revision for entry in entries}


def in_force(there: Standing, seen: int) -> frozenset[Entry]:
    """`seen`: the revision, or a later one, by which all API servers were seen to go; 0: none."""
    return frozenset(entry for entry, since in there.items() if 0 < since <= seen)
