"""Makes a cluster and a pod that show a difference small."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from allocating.worlds import Json

_DEFAULTED: Final = ("count", "allocationMode", "operator")
"""What the API server would put there again."""

StillDiffers = Callable[[Json], bool]


def shrink(question: Json, still_differs: StillDiffers) -> Json:
    """Leaves out whatever can be left out."""
    before = None
    while question != before:
        before, number = question, 0
        while number < len(paths := list(_paths(question))):
            smaller = _without(question, paths[number])
            if still_differs(smaller):
                question = smaller
            else:
                number += 1
    return question


def _without(question: Json, path: tuple[Any, ...]) -> Json:
    smaller: Json = json.loads(json.dumps(question))
    parent = smaller
    for key in path[:-1]:
        parent = parent[key]
    removed = parent.pop(path[-1])
    if path[-2:-1] == ("slices",):
        _count_again(smaller, removed)
    return smaller


def _count_again(question: Json, removed: Json) -> None:
    """A pool without the slice, rather than an incomplete one."""
    pool = removed["spec"]["pool"]
    for one in question["slices"]:
        if one["spec"]["driver"] == removed["spec"]["driver"] and one["spec"]["pool"] == pool:
            one["spec"]["pool"]["resourceSliceCount"] = max(1, pool["resourceSliceCount"] - 1)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of everything within, the largest things first."""
    items = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    if path:
        for key, _ in reversed(items):
            if key not in _DEFAULTED:
                yield (*path, key)
    for key, within in items:
        yield from _paths(within, (*path, key))
