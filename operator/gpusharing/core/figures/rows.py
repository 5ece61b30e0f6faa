"""Numbers of namespaces: whoever makes many of them does not make the page of metrics long."""

import heapq
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

MOST_ROWS: Final = 500
"""With a namespace of their own, of each metric."""
OTHERS: Final = "(other)"
"""In place of all other namespaces: no namespace has such a name."""


class Row(NamedTuple):
    policy: str
    """Empty: of no policy."""
    namespace: str
    value: str
    """Of the third label: a reason, or a mode."""


def largest(rows: Mapping[Row, int]) -> AbstractSet[Row]:
    """Those that are shown. Of equal ones always the same, so that series do not come and go."""
    if len(rows) <= MOST_ROWS:
        return rows.keys()
    return set(heapq.nsmallest(MOST_ROWS, rows, key=lambda row: (-rows[row], row)))


def bounded(rows: Mapping[Row, int], shown: AbstractSet[Row]) -> Mapping[Row, int]:
    """With the sums of those that are not shown."""
    sums: Counter[Row] = Counter()
    for row, number in rows.items():
        sums[row if row in shown else Row(row.policy, OTHERS, row.value)] += number
    return sums
