"""Arbitrary JSON, as it may stand in a claim's opaque parameters."""

from typing import Any

from hypothesis import strategies as st

# Half surrogate pairs too: JSON can say them, and the API server keeps them as they came.
text = st.text(st.characters(exclude_categories=()), max_size=8) | st.sampled_from(["", "\n", "\ud800", "a\udfff"])

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text

values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(text, children, max_size=4),
    max_leaves=12,
)


def nested(depth: int) -> list[Any]:
    """So many lists in each other."""
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value
