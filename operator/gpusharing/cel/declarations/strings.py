"""Strings: cel-go's extension of version 2, and Kubernetes' functions for regular expressions."""

from typing import Final

TABLE: Final = """
charAt
    string_char_at_int: string.(int) -> string
indexOf
    list_a_index_of_int (until 1.36): list(A).(A) -> int
    string_index_of_string: string.(string) -> int
    string_index_of_string_int: string.(string, int) -> int
    list_a_index_of_int (since 1.37): list(A).(A) -> int
lastIndexOf
    list_a_last_index_of_int (until 1.36): list(A).(A) -> int
    string_last_index_of_string: string.(string) -> int
    string_last_index_of_string_int: string.(string, int) -> int
    list_a_last_index_of_int (since 1.37): list(A).(A) -> int
lowerAscii
    string_lower_ascii: string.() -> string
upperAscii
    string_upper_ascii: string.() -> string
replace
    string_replace_string_string: string.(string, string) -> string
    string_replace_string_string_int: string.(string, string, int) -> string
split
    string_split_string: string.(string) -> list(string)
    string_split_string_int: string.(string, int) -> list(string)
substring
    string_substring_int: string.(int) -> string
    string_substring_int_int: string.(int, int) -> string
trim
    string_trim: string.() -> string
join
    list_join: list(string).() -> string
    list_join_string: list(string).(string) -> string
format
    string_format: string.(list(dyn)) -> string
strings.quote
    strings_quote: (string) -> string
find
    string_find_string: string.(string) -> string
findAll
    string_find_all_string: string.(string) -> list(string)
    string_find_all_string_int: string.(string, int) -> list(string)
"""
