"""Protobuf messages that an expression writes out: as soon as they are made, they are values of some other type."""

import base64
import math
import struct
from collections.abc import Callable
from typing import Any, Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.runtime import literals, maps
from gpusharing.cel.values.durations import SECOND, Duration
from gpusharing.cel.values.network import Cidr, Ip
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import NONE, Optional
from gpusharing.cel.values.quantity import Quantity
from gpusharing.cel.values.semver import Semver
from gpusharing.cel.values.timestamps import Timestamp
from gpusharing.cel.values.urls import Url

_Read = Callable[[Any], Any]

_JSON_SAFE: Final = (1 << 53) - 1


def maker(name: str, fields: tuple[str, ...], optional: frozenset[int]) -> Callable[..., Any]:
    """A function of the fields' values. `optional`: the positions of those that may be absent."""
    readers, make = _MESSAGES.get(name, ({}, None))

    def made(*values: Any) -> Any:
        given: dict[str, Any] = {}
        for position, (field, value) in enumerate(zip(fields, values, strict=True)):
            content = literals.item(value) if position in optional else (value,)
            given.pop(field, None)
            if content:
                given[field] = content[0]
        if make is None:
            raise EvaluationError(f"unknown type '{name}'")
        return make(**{field: readers[field](value) for field, value in given.items()})

    return made


def can_be_made(name: str) -> bool:
    """Values with fields are of no use in a selector, and there are none here."""
    return name not in ("google.protobuf.Empty", "google.protobuf.Struct.FieldsEntry")


# --- Fields -----------------------------------------------------------------------------------------------------------


def _content(value: Any) -> Any:
    while type(value) is Optional and value is not NONE:
        value = value.value
    return value


def _exactly(kind: type) -> _Read:
    def read(value: Any) -> Any:
        value = _content(value)
        if type(value) is not kind:
            raise EvaluationError(f"field type conversion error from {type(value).__name__}")
        return value

    return read


_WITH_A_TEXT: Final = (Quantity, Semver, Url, Ip, Cidr)


def _string(value: Any) -> str:
    value = _content(value)
    return str(value) if type(value) in _WITH_A_TEXT else _exactly(str)(value)


def _within(kind: type, smallest: int, largest: int) -> _Read:
    read_any = _exactly(kind)

    def read(value: Any) -> Any:
        number = read_any(value)
        if not smallest <= number <= largest:
            raise EvaluationError("field type conversion error: integer overflow")
        return number

    return read


def _float(value: Any) -> float:
    number: float = _exactly(float)(value)
    try:
        (rounded,) = struct.unpack("f", struct.pack("f", number))
    except OverflowError:
        return math.copysign(math.inf, number)
    return float(rounded)


_INT32: Final = _within(int, -(1 << 31), (1 << 31) - 1)
_BYTE: Final = _within(Uint, 0, (1 << 8) - 1)


def _bytes(value: Any) -> bytes:
    """A list of small unsigned integers is a slice of bytes to Go."""
    value = _content(value)
    return bytes(map(_BYTE, value)) if isinstance(value, list) else _exactly(bytes)(value)


def _json(value: Any) -> Any:
    """As protobuf has it in JSON, read again."""
    value = _content(value)
    match value:
        case None | bool() | str() | float():
            return value
        case int():
            return float(value) if abs(value) <= _JSON_SAFE else str(int(value))
        case bytes():
            return base64.b64encode(value).decode()
        case Duration() | Timestamp():
            return str(value)
        case list():
            return [_json(item) for item in value]
        case dict():
            return {_key(key): _json(item) for key, item in maps.items(value)}
    raise EvaluationError(f"field type conversion error from {type(value).__name__}")


def _key(key: Any) -> str:
    if type(key) is not str:
        raise EvaluationError(f"field type conversion error: the key {key} is no string")
    return key


def _json_of(kind: type) -> _Read:
    def read(value: Any) -> Any:
        value = _content(value)
        if not isinstance(value, kind):
            raise EvaluationError(f"field type conversion error from {type(value).__name__}")
        return _json(value)

    return read


# --- Messages ---------------------------------------------------------------------------------------------------------


def _wrapper(read: _Read, default: Any) -> tuple[dict[str, _Read], Callable[..., Any]]:
    return {"value": read}, lambda value=default: value


def _duration(seconds: int = 0, nanos: int = 0) -> Duration:
    nanoseconds = seconds * SECOND + nanos
    return Duration(max(-(1 << 63), min(nanoseconds, (1 << 63) - 1)))


def _timestamp(seconds: int = 0, nanos: int = 0) -> Timestamp:
    """Not only of the years that CEL knows otherwise."""
    more_seconds, nanoseconds = divmod(nanos, SECOND)
    moment = Timestamp(0, nanoseconds)
    moment.unix = seconds + more_seconds
    return moment


def _any(**_fields: Any) -> Any:
    raise EvaluationError("unsupported conversion to ref.Val: (*dynamicpb.Message)")


def _value(**fields: Any) -> Any:
    return next(iter(fields.values()), None)


_TIME: Final = {"seconds": _exactly(int), "nanos": _INT32}
_MESSAGES: Final[dict[str, tuple[dict[str, _Read], Callable[..., Any]]]] = {
    "google.protobuf.BoolValue": _wrapper(_exactly(bool), False),
    "google.protobuf.BytesValue": _wrapper(_bytes, b""),
    "google.protobuf.DoubleValue": _wrapper(_exactly(float), 0.0),
    "google.protobuf.FloatValue": _wrapper(_float, 0.0),
    "google.protobuf.Int32Value": _wrapper(_INT32, 0),
    "google.protobuf.Int64Value": _wrapper(_exactly(int), 0),
    "google.protobuf.StringValue": _wrapper(_string, ""),
    "google.protobuf.UInt32Value": _wrapper(_within(Uint, 0, (1 << 32) - 1), Uint(0)),
    "google.protobuf.UInt64Value": _wrapper(_exactly(Uint), Uint(0)),
    "google.protobuf.Duration": (dict(_TIME), _duration),
    "google.protobuf.Timestamp": (dict(_TIME), _timestamp),
    "google.protobuf.Any": ({"type_url": _string, "value": _bytes}, _any),
    "google.protobuf.ListValue": ({"values": _json_of(list)}, lambda values=(): list(values)),
    "google.protobuf.Struct": ({"fields": _json_of(dict)}, lambda fields=(): dict(fields)),
    "google.protobuf.Value": (
        {
            "null_value": lambda _value: None,
            "number_value": _exactly(float),
            "string_value": _string,
            "bool_value": _exactly(bool),
            "struct_value": _json_of(dict),
            "list_value": _json_of(list),
        },
        _value,
    ),
}
