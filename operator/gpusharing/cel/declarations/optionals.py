"""Values that may be absent."""

from typing import Final

TABLE: Final = """
optional.none
    optional_none: () -> optional_type(V)
optional.of
    optional_of: (V) -> optional_type(V)
optional.ofNonZeroValue
    optional_ofNonZeroValue: (V) -> optional_type(V)
optional.unwrap
    optional_unwrap: (list(optional_type(V))) -> list(V)
unwrapOpt
    optional_unwrapOpt: list(optional_type(V)).() -> list(V)
or
    optional_or_optional: optional_type(V).(optional_type(V)) -> optional_type(V)
orValue
    optional_orValue_value: optional_type(V).(V) -> V
hasValue
    optional_hasValue: optional_type(V).() -> bool
value
    optional_value: optional_type(V).() -> V
first
    list_first: list(V).() -> optional_type(V)
last
    list_last: list(V).() -> optional_type(V)
"""
