"""Operators, and the functions that macros put in."""

from typing import Final

TABLE: Final = """
_?_:_
    conditional: (bool, A, A) -> A
_&&_
    logical_and: (bool, bool) -> bool
_||_
    logical_or: (bool, bool) -> bool
!_
    logical_not: (bool) -> bool
-_
    negate_double: (double) -> double
    negate_int64: (int) -> int
_+_
    add_bytes: (bytes, bytes) -> bytes
    add_double: (double, double) -> double
    add_duration_duration: (duration, duration) -> duration
    add_duration_timestamp: (duration, timestamp) -> timestamp
    add_timestamp_duration: (timestamp, duration) -> timestamp
    add_int64: (int, int) -> int
    add_list: (list(A), list(A)) -> list(A)
    add_string: (string, string) -> string
    add_uint64: (uint, uint) -> uint
_-_
    subtract_double: (double, double) -> double
    subtract_duration_duration: (duration, duration) -> duration
    subtract_int64: (int, int) -> int
    subtract_timestamp_duration: (timestamp, duration) -> timestamp
    subtract_timestamp_timestamp: (timestamp, timestamp) -> duration
    subtract_uint64: (uint, uint) -> uint
_*_
    multiply_double: (double, double) -> double
    multiply_int64: (int, int) -> int
    multiply_uint64: (uint, uint) -> uint
_/_
    divide_double: (double, double) -> double
    divide_int64: (int, int) -> int
    divide_uint64: (uint, uint) -> uint
_%_
    modulo_int64: (int, int) -> int
    modulo_uint64: (uint, uint) -> uint
_==_
    equals: (A, A) -> bool
_!=_
    not_equals: (A, A) -> bool
_<_
    less_bool: (bool, bool) -> bool
    less_int64: (int, int) -> bool
    less_int64_double: (int, double) -> bool
    less_int64_uint64: (int, uint) -> bool
    less_uint64: (uint, uint) -> bool
    less_uint64_double: (uint, double) -> bool
    less_uint64_int64: (uint, int) -> bool
    less_double: (double, double) -> bool
    less_double_int64: (double, int) -> bool
    less_double_uint64: (double, uint) -> bool
    less_string: (string, string) -> bool
    less_bytes: (bytes, bytes) -> bool
    less_timestamp: (timestamp, timestamp) -> bool
    less_duration: (duration, duration) -> bool
_<=_
    less_equals_bool: (bool, bool) -> bool
    less_equals_int64: (int, int) -> bool
    less_equals_int64_double: (int, double) -> bool
    less_equals_int64_uint64: (int, uint) -> bool
    less_equals_uint64: (uint, uint) -> bool
    less_equals_uint64_double: (uint, double) -> bool
    less_equals_uint64_int64: (uint, int) -> bool
    less_equals_double: (double, double) -> bool
    less_equals_double_int64: (double, int) -> bool
    less_equals_double_uint64: (double, uint) -> bool
    less_equals_string: (string, string) -> bool
    less_equals_bytes: (bytes, bytes) -> bool
    less_equals_timestamp: (timestamp, timestamp) -> bool
    less_equals_duration: (duration, duration) -> bool
_>_
    greater_bool: (bool, bool) -> bool
    greater_int64: (int, int) -> bool
    greater_int64_double: (int, double) -> bool
    greater_int64_uint64: (int, uint) -> bool
    greater_uint64: (uint, uint) -> bool
    greater_uint64_double: (uint, double) -> bool
    greater_uint64_int64: (uint, int) -> bool
    greater_double: (double, double) -> bool
    greater_double_int64: (double, int) -> bool
    greater_double_uint64: (double, uint) -> bool
    greater_string: (string, string) -> bool
    greater_bytes: (bytes, bytes) -> bool
    greater_timestamp: (timestamp, timestamp) -> bool
    greater_duration: (duration, duration) -> bool
_>=_
    greater_equals_bool: (bool, bool) -> bool
    greater_equals_int64: (int, int) -> bool
    greater_equals_int64_double: (int, double) -> bool
    greater_equals_int64_uint64: (int, uint) -> bool
    greater_equals_uint64: (uint, uint) -> bool
    greater_equals_uint64_double: (uint, double) -> bool
    greater_equals_uint64_int64: (uint, int) -> bool
    greater_equals_double: (double, double) -> bool
    greater_equals_double_int64: (double, int) -> bool
    greater_equals_double_uint64: (double, uint) -> bool
    greater_equals_string: (string, string) -> bool
    greater_equals_bytes: (bytes, bytes) -> bool
    greater_equals_timestamp: (timestamp, timestamp) -> bool
    greater_equals_duration: (duration, duration) -> bool
@in
    in_list: (A, list(A)) -> bool
    in_map: (A, map(A, B)) -> bool
_[_]
    index_list: (list(A), int) -> A
    index_map: (map(A, B), A) -> B
    optional_list_index_int: (optional_type(list(V)), int) -> optional_type(V)
    optional_map_index_value: (optional_type(map(K, V)), K) -> optional_type(V)
_[?_]
    list_optindex_optional_int: (list(V), int) -> optional_type(V)
    optional_list_optindex_optional_int: (optional_type(list(V)), int) -> optional_type(V)
    map_optindex_optional_value: (map(K, V), K) -> optional_type(V)
    optional_map_optindex_optional_value: (optional_type(map(K, V)), K) -> optional_type(V)
_?._
    select_optional_field: (dyn, string) -> optional_type(V)
@not_strictly_false
    not_strictly_false: (bool) -> bool
cel.@mapInsert
    @mapInsert_map_key_value: (map(K, V), K, V) -> map(K, V)
    @mapInsert_map_map: (map(K, V), map(K, V)) -> map(K, V)
@sortByAssociatedKeys
    list_int_sortByAssociatedKeys: list(T).(list(int)) -> list(T)
    list_uint_sortByAssociatedKeys: list(T).(list(uint)) -> list(T)
    list_double_sortByAssociatedKeys: list(T).(list(double)) -> list(T)
    list_bool_sortByAssociatedKeys: list(T).(list(bool)) -> list(T)
    list_google.protobuf.Duration_sortByAssociatedKeys: list(T).(list(duration)) -> list(T)
    list_google.protobuf.Timestamp_sortByAssociatedKeys: list(T).(list(timestamp)) -> list(T)
    list_string_sortByAssociatedKeys: list(T).(list(string)) -> list(T)
    list_bytes_sortByAssociatedKeys: list(T).(list(bytes)) -> list(T)
"""
