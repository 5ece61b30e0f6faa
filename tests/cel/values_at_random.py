"""Values of all kinds, for tests of what is done with them."""

import math
from typing import Final

from hypothesis import strategies as st

from gpusharing.cel.values import quantity, semver
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import Optional

SMALLEST: Final = -(2**63)
LARGEST: Final = 2**63 - 1
VERSION: Final = semver.parse("1.2.3")
QUANTITY: Final = quantity.parse("80Gi")
NAN: Final = math.nan

ints: Final = st.integers(SMALLEST, LARGEST)
uints: Final = st.integers(0, 2**64 - 1).map(Uint)
numbers: Final = st.one_of(ints, uints, st.floats())
scalars: Final = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=5), st.binary(max_size=5))
values: Final = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        inner.map(Optional),
    ),
    max_leaves=8,
)
