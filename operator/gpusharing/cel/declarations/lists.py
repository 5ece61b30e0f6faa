"""Lists and sets: cel-go's extensions, and Kubernetes' own functions."""

from typing import Final

TABLE: Final = """
includes
    dra_includes_dyn_dyn (only 1.36): dyn.(dyn) -> bool
    list_includes_dyn_dyn (since 1.37): dyn.(dyn) -> bool
isSorted
    list_int_is_sorted_bool: list(int).() -> bool
    list_uint_is_sorted_bool: list(uint).() -> bool
    list_double_is_sorted_bool: list(double).() -> bool
    list_bool_is_sorted_bool: list(bool).() -> bool
    list_duration_is_sorted_bool: list(duration).() -> bool
    list_timestamp_is_sorted_bool: list(timestamp).() -> bool
    list_string_is_sorted_bool: list(string).() -> bool
    list_bytes_is_sorted_bool: list(bytes).() -> bool
sum
    list_int_sum_int: list(int).() -> int
    list_uint_sum_uint: list(uint).() -> uint
    list_double_sum_double: list(double).() -> double
    list_duration_sum_duration: list(duration).() -> duration
min
    list_int_min_int: list(int).() -> int
    list_uint_min_uint: list(uint).() -> uint
    list_double_min_double: list(double).() -> double
    list_bool_min_bool: list(bool).() -> bool
    list_duration_min_duration: list(duration).() -> duration
    list_timestamp_min_timestamp: list(timestamp).() -> timestamp
    list_string_min_string: list(string).() -> string
    list_bytes_min_bytes: list(bytes).() -> bytes
max
    list_int_max_int: list(int).() -> int
    list_uint_max_uint: list(uint).() -> uint
    list_double_max_double: list(double).() -> double
    list_bool_max_bool: list(bool).() -> bool
    list_duration_max_duration: list(duration).() -> duration
    list_timestamp_max_timestamp: list(timestamp).() -> timestamp
    list_string_max_string: list(string).() -> string
    list_bytes_max_bytes: list(bytes).() -> bytes
distinct
    list_distinct: list(T).() -> list(T)
flatten
    list_flatten: list(list(T)).() -> list(T)
    list_flatten_int: list(dyn).(int) -> list(dyn)
lists.range
    lists_range: (int) -> list(int)
reverse
    list_reverse: list(T).() -> list(T)
slice
    list_slice: list(T).(int, int) -> list(T)
sort
    list_int_sort: list(int).() -> list(int)
    list_uint_sort: list(uint).() -> list(uint)
    list_double_sort: list(double).() -> list(double)
    list_bool_sort: list(bool).() -> list(bool)
    list_google.protobuf.Duration_sort: list(duration).() -> list(duration)
    list_google.protobuf.Timestamp_sort: list(timestamp).() -> list(timestamp)
    list_string_sort: list(string).() -> list(string)
    list_bytes_sort: list(bytes).() -> list(bytes)
sets.contains
    list_sets_contains_list: (list(T), list(T)) -> bool
sets.equivalent
    list_sets_equivalent_list: (list(T), list(T)) -> bool
sets.intersects
    list_sets_intersects_list: (list(T), list(T)) -> bool
"""
