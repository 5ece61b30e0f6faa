"""Quantities and semantic versions."""

from typing import Final

TABLE: Final = """
quantity
    string_to_quantity: (string) -> kubernetes.Quantity
isQuantity
    is_quantity_string: (string) -> bool
sign
    quantity_sign: (kubernetes.Quantity) -> int
isInteger
    quantity_is_integer: kubernetes.Quantity.() -> bool
asInteger
    quantity_get_int: kubernetes.Quantity.() -> int
asApproximateFloat
    quantity_get_float: kubernetes.Quantity.() -> double
add
    quantity_add: kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity
    quantity_add_int: kubernetes.Quantity.(int) -> kubernetes.Quantity
sub
    quantity_sub: kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity
    quantity_sub_int: kubernetes.Quantity.(int) -> kubernetes.Quantity
compareTo
    quantity_compare_to: kubernetes.Quantity.(kubernetes.Quantity) -> int
    semver_compare_to: kubernetes.Semver.(kubernetes.Semver) -> int
isLessThan
    quantity_is_less_than: kubernetes.Quantity.(kubernetes.Quantity) -> bool
    semver_is_less_than: kubernetes.Semver.(kubernetes.Semver) -> bool
isGreaterThan
    quantity_is_greater_than: kubernetes.Quantity.(kubernetes.Quantity) -> bool
    semver_is_greater_than: kubernetes.Semver.(kubernetes.Semver) -> bool
semver
    string_to_semver: (string) -> kubernetes.Semver
    string_bool_to_semver: (string, bool) -> kubernetes.Semver
isSemver
    is_semver_string: (string) -> bool
    is_semver_string_bool: (string, bool) -> bool
major
    semver_major: kubernetes.Semver.() -> int
minor
    semver_minor: kubernetes.Semver.() -> int
patch
    semver_patch: kubernetes.Semver.() -> int
"""
