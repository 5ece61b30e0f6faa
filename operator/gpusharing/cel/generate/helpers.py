"""What generated code refers to most often, under the same names for all programs."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime import equality, faults, indexing, looping, membership
from gpusharing.cel.runtime.maps import MISSING
from gpusharing.cel.runtime.overloads import BY_FUNCTION
from gpusharing.cel.tree import GREATER, GREATER_EQUALS, LESS, LESS_EQUALS, NOT
from gpusharing.cel.values.quantity import Quantity
from gpusharing.cel.values.semver import Semver

# Short names: metered code takes its own length for the time that it needs.
HELPERS: Final[dict[str, Any]] = {
    f"h{number}": helper
    for number, helper in enumerate((
        *(type, bool, int, str, Quantity, Semver, EvaluationError, MISSING),
        *(faults.absorbed, faults.fail, faults.no_such_overload),
        *(equality.equal, equality.unequal, membership.is_member, indexing.index, looping.items),
        *(BY_FUNCTION[function] for function in (NOT, LESS, LESS_EQUALS, GREATER, GREATER_EQUALS)),
        *(Quantity.compare, Quantity.is_greater, Quantity.is_less),
        *(Semver.compare, Semver.is_greater, Semver.is_less),
    ))
}  # fmt: skip
NAMES: Final[Mapping[int, str]] = MappingProxyType({id(helper): name for name, helper in HELPERS.items()})
"""By the identity of helpers, which are never deleted."""
