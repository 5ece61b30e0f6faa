"""The implementations of overloads, by cel-go's ids. Their arguments have the declared types.

Functions that look at the type of their first argument themselves, as operators do, are in `BY_FUNCTION`.
"""

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from gpusharing.cel.declarations.tables import merged
from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime import arithmetic, listing, membership, optionals, ordering, regexes, sizes
from gpusharing.cel.runtime.faults import no_such_overload
from gpusharing.cel.tree import (
    ADD,
    DIVIDE,
    GREATER,
    GREATER_EQUALS,
    IN,
    LESS,
    LESS_EQUALS,
    MODULO,
    MULTIPLY,
    NEGATE,
    NOT,
    SUBTRACT,
)
from gpusharing.cel.values import (
    conversions,
    doubles,
    durations,
    formatting,
    network,
    quantity,
    semver,
    strings,
    timestamps,
    urls,
    utf8,
)
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.named_formats import NAMED_FORMATS, NamedFormat
from gpusharing.cel.values.network import Cidr, Ip
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import NONE, Optional
from gpusharing.cel.values.quantity import Quantity
from gpusharing.cel.values.semver import Semver
from gpusharing.cel.values.timestamps import Timestamp
from gpusharing.cel.values.type_values import type_of
from gpusharing.cel.values.urls import Url

Implementation: TypeAlias = Callable[..., Any]

_QUANTITIES_CHANGE: Final = 36
"""The last minor version of Kubernetes in which adding to a big quantity changes it."""
_INCLUDES_IS_LIMITED: Final = 36
"""The last in which `includes` refuses long lists."""
_MOST_INCLUDED: Final = 48
_RANGE_IS_UNLIMITED: Final = 36
"""The last whose `lists.range` takes any number."""


def _same(value: Any) -> Any:
    return value


def _negated(value: Any) -> bool:
    return not value if type(value) is bool else no_such_overload()


BY_FUNCTION: Final[Mapping[str, Implementation]] = MappingProxyType(
    {
        NOT: _negated,
        NEGATE: arithmetic.negate,
        ADD: arithmetic.add,
        SUBTRACT: arithmetic.subtract,
        MULTIPLY: arithmetic.multiply,
        DIVIDE: arithmetic.divide,
        MODULO: arithmetic.modulo,
        LESS: ordering.less,
        LESS_EQUALS: ordering.less_or_equal,
        GREATER: ordering.greater,
        GREATER_EQUALS: ordering.greater_or_equal,
        IN: membership.is_in,
        "size": sizes.size,
        "type": type_of,
        "dyn": _same,
        "matches": regexes.matches,
        "sort": listing.sort,
        "@sortByAssociatedKeys": listing.sort_by_keys,
    }
)


@cache
def implementations(minor: int) -> Mapping[str, Implementation]:
    tables = (
        _CONVERSIONS, _TIMES, _TEXTS, _texts(minor), _LISTS, _ranges(minor), _includes(minor),
        _OPTIONALS, _QUANTITIES, _sums_of_quantities(minor), _SEMVERS, _NETWORK, _URLS, _FORMATS,
    )  # fmt: skip
    return MappingProxyType(merged(*tables))


# --- The standard library ---------------------------------------------------------------------------------------------


def _no_duration(_value: int) -> Duration:
    raise EvaluationError("type conversion error from 'int' to 'google.protobuf.Duration'")


_CONVERSIONS: Final[dict[str, Implementation]] = {
    "bool_to_bool": _same,
    "string_to_bool": conversions.bool_of_text,
    "bytes_to_bytes": _same,
    "string_to_bytes": utf8.encoded,
    "double_to_double": _same,
    "int64_to_double": float,
    "uint64_to_double": float,
    "string_to_double": doubles.parse,
    "duration_to_duration": _same,
    "string_to_duration": durations.parse,
    "int64_to_duration": _no_duration,
    "int64_to_int64": _same,
    "double_to_int64": conversions.int_of_double,
    "duration_to_int64": lambda value: value.nanoseconds,
    "string_to_int64": conversions.int_of_text,
    "timestamp_to_int64": lambda value: value.unix,
    "uint64_to_int64": conversions.int_of_uint,
    "string_to_string": _same,
    "bool_to_string": conversions.text_of_bool,
    "bytes_to_string": conversions.text_of_bytes,
    "double_to_string": doubles.shortest,
    "duration_to_string": str,
    "int64_to_string": str,
    "timestamp_to_string": str,
    "uint64_to_string": lambda value: str(int(value)),
    "timestamp_to_timestamp": _same,
    "int64_to_timestamp": Timestamp,
    "string_to_timestamp": timestamps.parse,
    "uint64_to_uint64": _same,
    "double_to_uint64": conversions.uint_of_double,
    "int64_to_uint64": conversions.uint_of_int,
    "string_to_uint64": conversions.uint_of_text,
}


def _day_of_month_from_zero(moment: Timestamp, zone: str = "") -> int:
    return moment.day_of_month(zone) - 1


_TIMES: Final[dict[str, Implementation]] = {
    "timestamp_to_year": Timestamp.year,
    "timestamp_to_year_with_tz": Timestamp.year,
    "timestamp_to_month": Timestamp.month,
    "timestamp_to_month_with_tz": Timestamp.month,
    "timestamp_to_day_of_year": Timestamp.day_of_year,
    "timestamp_to_day_of_year_with_tz": Timestamp.day_of_year,
    "timestamp_to_day_of_month": _day_of_month_from_zero,
    "timestamp_to_day_of_month_with_tz": _day_of_month_from_zero,
    "timestamp_to_day_of_month_1_based": Timestamp.day_of_month,
    "timestamp_to_day_of_month_1_based_with_tz": Timestamp.day_of_month,
    "timestamp_to_day_of_week": Timestamp.day_of_week,
    "timestamp_to_day_of_week_with_tz": Timestamp.day_of_week,
    "timestamp_to_hours": Timestamp.hours,
    "timestamp_to_hours_with_tz": Timestamp.hours,
    "timestamp_to_minutes": Timestamp.minutes,
    "timestamp_to_minutes_with_tz": Timestamp.minutes,
    "timestamp_to_seconds": Timestamp.seconds,
    "timestamp_to_seconds_tz": Timestamp.seconds,
    "timestamp_to_milliseconds": Timestamp.milliseconds,
    "timestamp_to_milliseconds_with_tz": Timestamp.milliseconds,
    "duration_to_hours": Duration.hours,
    "duration_to_minutes": Duration.minutes,
    "duration_to_seconds": Duration.seconds,
    "duration_to_milliseconds": Duration.milliseconds,
}

# --- Strings ----------------------------------------------------------------------------------------------------------


def _starts_with(text: Any, part: Any) -> bool:
    return text.startswith(part) if type(text) is str and type(part) is str else no_such_overload()


def _ends_with(text: Any, part: Any) -> bool:
    return text.endswith(part) if type(text) is str and type(part) is str else no_such_overload()


def _contains(text: Any, part: Any) -> bool:
    return part in text if type(text) is str and type(part) is str else no_such_overload()


_TEXTS: Final[dict[str, Implementation]] = {
    "starts_with_string": _starts_with,
    "ends_with_string": _ends_with,
    "contains_string": _contains,
    "string_char_at_int": strings.char_at,
    "string_lower_ascii": strings.lower_ascii,
    "string_upper_ascii": strings.upper_ascii,
    "string_replace_string_string": strings.replace,
    "string_replace_string_string_int": strings.replace,
    "string_split_string": strings.split,
    "string_split_string_int": strings.split,
    "string_substring_int": strings.substring,
    "string_substring_int_int": strings.substring,
    "string_trim": strings.trim,
    "string_format": formatting.format_text,
    "strings_quote": strings.quote,
    "list_join": strings.join,
    "list_join_string": strings.join,
    "string_find_string": regexes.find,
    "string_find_all_string": regexes.find_all,
    "string_find_all_string_int": regexes.find_all,
}


def _texts(minor: int) -> dict[str, Implementation]:
    def index_of(text: str, part: str, start: int = 0) -> int:
        return strings.index_of(text, part, start, minor)

    def last_index_of(text: str, part: str) -> int:
        if not part:
            return len(text)
        # cel-go compares lengths in bytes here.
        if len(utf8.encoded(text)) < len(utf8.encoded(part)):
            return -1
        return strings.last_index_of(text, part, len(text) - 1, minor)

    def last_index_up_to(text: str, part: str, start: int) -> int:
        return strings.last_index_of(text, part, start, minor)

    return {
        "string_index_of_string": index_of,
        "string_index_of_string_int": index_of,
        "string_last_index_of_string": last_index_of,
        "string_last_index_of_string_int": last_index_up_to,
    }


# --- Lists and sets ---------------------------------------------------------------------------------------------------

_ZEROS: Final = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_ORDERED: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")

_LISTS: Final[dict[str, Implementation]] = {
    **{f"list_{kind}_sum_{kind}": listing.sum_from(zero) for kind, zero in _ZEROS.items()},
    **{f"list_{kind}_min_{kind}": listing.smallest for kind in _ORDERED},
    **{f"list_{kind}_max_{kind}": listing.largest for kind in _ORDERED},
    **{f"list_{kind}_is_sorted_bool": listing.is_sorted for kind in _ORDERED},
    "list_a_index_of_int": listing.index_of,
    "list_a_last_index_of_int": listing.last_index_of,
    "list_slice": listing.part,
    "list_flatten": listing.flatten_once,
    "list_flatten_int": listing.flatten,
    "list_reverse": listing.reverse,
    "list_distinct": listing.distinct,
    "list_sets_contains_list": listing.contains_all,
    "list_sets_equivalent_list": listing.contain_each_other,
    "list_sets_intersects_list": listing.intersect,
}


def _ranges(minor: int) -> dict[str, Implementation]:
    return {"lists_range": listing.unlimited_range if minor <= _RANGE_IS_UNLIMITED else listing.number_range}


def _includes(minor: int) -> dict[str, Implementation]:
    most = _MOST_INCLUDED if minor <= _INCLUDES_IS_LIMITED else None
    includes = partial(listing.has_or_is, most=most)
    return {"list_includes_dyn_dyn": includes, "dra_includes_dyn_dyn": includes}


# --- Optional values --------------------------------------------------------------------------------------------------

_OPTIONALS: Final[dict[str, Implementation]] = {
    "optional_of": optionals.of,
    "optional_ofNonZeroValue": optionals.of_non_zero,
    "optional_none": optionals.none,
    "optional_value": optionals.value,
    "optional_hasValue": optionals.has_value,
    "list_first": optionals.first,
    "list_last": optionals.last,
    "optional_unwrap": optionals.unwrap,
    "optional_unwrapOpt": optionals.unwrap,
}

# --- Kubernetes' types ------------------------------------------------------------------------------------------------

_QUANTITIES: Final[dict[str, Implementation]] = {
    "string_to_quantity": quantity.parse,
    "is_quantity_string": quantity.is_quantity,
    "quantity_sign": Quantity.sign,
    "quantity_is_greater_than": Quantity.is_greater,
    "quantity_is_less_than": Quantity.is_less,
    "quantity_compare_to": Quantity.compare,
    "quantity_get_float": Quantity.as_float,
    "quantity_get_int": Quantity.as_integer,
    "quantity_is_integer": Quantity.is_integer,
}


def _sums_of_quantities(minor: int) -> dict[str, Implementation]:
    add, subtract = Quantity.add, Quantity.subtract
    if minor <= _QUANTITIES_CHANGE:
        add, subtract = Quantity.add_in_place, Quantity.subtract_in_place
    return {
        "quantity_add": add,
        "quantity_add_int": lambda value, integer: add(value, Quantity.of(integer)),
        "quantity_sub": subtract,
        "quantity_sub_int": lambda value, integer: subtract(value, Quantity.of(integer)),
    }


def _parse_semver(text: str, normalize: bool = False) -> Semver:
    return semver.parse(text, normalize=normalize)


def _is_semver(text: str, normalize: bool = False) -> bool:
    return semver.is_semver(text, normalize=normalize)


_SEMVERS: Final[dict[str, Implementation]] = {
    "string_to_semver": _parse_semver,
    "string_bool_to_semver": _parse_semver,
    "is_semver_string": _is_semver,
    "is_semver_string_bool": _is_semver,
    "semver_is_greater_than": Semver.is_greater,
    "semver_is_less_than": Semver.is_less,
    "semver_compare_to": Semver.compare,
    "semver_major": lambda value: value.major,
    "semver_minor": lambda value: value.minor,
    "semver_patch": lambda value: value.patch,
}


def _contains_ip_text(cidr: Cidr, text: str) -> bool:
    return cidr.contains_ip(network.parse_ip(text))


def _contains_cidr_text(cidr: Cidr, text: str) -> bool:
    return cidr.contains_cidr(network.parse_cidr(text))


_NETWORK: Final[dict[str, Implementation]] = {
    "string_to_ip": network.parse_ip,
    "is_ip": network.is_ip,
    "ip_is_canonical": network.is_canonical_ip,
    "ip_to_string": str,
    "ip_family": lambda ip: ip.family,
    "ip_is_unspecified": Ip.is_unspecified,
    "ip_is_loopback": Ip.is_loopback,
    "ip_is_link_local_multicast": Ip.is_link_local_multicast,
    "ip_is_link_local_unicast": Ip.is_link_local_unicast,
    "ip_is_global_unicast": Ip.is_global_unicast,
    "string_to_cidr": network.parse_cidr,
    "is_cidr": network.is_cidr,
    "cidr_to_string": str,
    "cidr_contains_ip_string": _contains_ip_text,
    "cidr_contains_ip_ip": Cidr.contains_ip,
    "cidr_contains_cidr_string": _contains_cidr_text,
    "cidr_contains_cidr": Cidr.contains_cidr,
    "cidr_ip": lambda cidr: cidr.ip,
    "cidr_prefix_length": lambda cidr: cidr.prefix_length,
    "cidr_masked": Cidr.masked,
}

_URLS: Final[dict[str, Implementation]] = {
    "string_to_url": urls.parse,
    "is_url_string": urls.is_url,
    "url_get_scheme": lambda url: url.scheme,
    "url_get_host": lambda url: url.host,
    "url_get_hostname": lambda url: url.hostname,
    "url_get_port": lambda url: url.port,
    "url_get_escaped_path": lambda url: url.escaped_path,
    "url_get_query": Url.query,
}


def _named_format(name: str) -> Optional:
    named = NAMED_FORMATS.get(name)
    return NONE if named is None else Optional(named)


def _validate(named: NamedFormat, text: str) -> Optional:
    reasons = named.validate(text)
    return Optional(reasons) if reasons else NONE


def _constant(value: NamedFormat) -> Implementation:
    return lambda: value


_FORMATS: Final[dict[str, Implementation]] = {
    "format-named": _named_format,
    "format-validate": _validate,
    **{f"format.{name}": _constant(named) for name, named in NAMED_FORMATS.items()},
}
