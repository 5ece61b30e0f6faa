"""Types that an expression can name, and those of them that it can make with `Type{field: value}`.

They are there because cel-go brings them along. A selector has use for `type(x) == string` at most.
"""

from collections.abc import Mapping
from typing import Final

from gpusharing.cel.declarations.tables import merged
from gpusharing.cel.declarations.types import (
    ANY,
    BOOL,
    BYTES,
    CIDR,
    DEVICE,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    IP,
    NULL,
    NULLABLE,
    QUANTITY,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Type,
    list_of,
    map_of,
    nullable,
    optional_of,
)

_DURATION: Final = "google.protobuf.Duration"
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_EMPTY: Final = "google.protobuf.Empty"
_ENTRY: Final = "google.protobuf.Struct.FieldsEntry"
_JSON_OBJECT: Final = map_of(STRING, DYN)
_JSON_LIST: Final = list_of(DYN)
_CAPACITY: Final = map_of(STRING, map_of(STRING, QUANTITY))

USABLE_AS_VALUES: Final[Mapping[str, Type]] = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "int": INT,
    "list": _JSON_LIST,
    "map": map_of(DYN, DYN),
    "null_type": NULL,
    "string": STRING,
    "type": TYPE,
    "uint": UINT,
    "optional_type": optional_of(DYN),
    "net.IP": IP,
    "net.CIDR": CIDR,
    _DURATION: DURATION,
    _TIMESTAMP: TIMESTAMP,
    _EMPTY: Type(_EMPTY),
    _ENTRY: Type(_ENTRY),
}
"""What `type(x)` can be compared with."""

_KNOWN_TO_THE_CHECKER_ONLY: Final[Mapping[str, Type]] = {
    "duration": DURATION,
    "timestamp": TIMESTAMP,
    "kubernetes.DRADevice": DEVICE,
    "kubernetes.DRADevice.capacity": _CAPACITY,
    "google.protobuf.Any": ANY,
    "google.protobuf.BoolValue": nullable(BOOL),
    "google.protobuf.BytesValue": nullable(BYTES),
    "google.protobuf.DoubleValue": nullable(DOUBLE),
    "google.protobuf.FloatValue": nullable(DOUBLE),
    "google.protobuf.Int32Value": nullable(INT),
    "google.protobuf.Int64Value": nullable(INT),
    "google.protobuf.ListValue": _JSON_LIST,
    "google.protobuf.StringValue": nullable(STRING),
    "google.protobuf.Struct": _JSON_OBJECT,
    "google.protobuf.UInt32Value": nullable(UINT),
    "google.protobuf.UInt64Value": nullable(UINT),
    "google.protobuf.Value": DYN,
}

WITH_FIELDS: Final = frozenset({"kubernetes.DRADevice", _EMPTY, _ENTRY})
"""Values of these types have fields; other messages are values of some other type as soon as they are made."""

CONSTANTS: Final[Mapping[str, Type]] = {"google.protobuf.NullValue.NULL_VALUE": INT}


def named_types(attribute: Type) -> Mapping[str, Type]:
    attributes = map_of(STRING, map_of(STRING, attribute))
    return merged(USABLE_AS_VALUES, _KNOWN_TO_THE_CHECKER_ONLY, {"kubernetes.DRADevice.attributes": attributes})


def message_fields(attribute: Type, minor: int) -> Mapping[str, Mapping[str, Type]]:
    """By the name of a type that can stand before braces."""
    time = {"seconds": INT, "nanos": INT}
    messages: dict[str, Mapping[str, Type]] = {
        "duration": time,
        "timestamp": time,
        "null_type": {},
        "kubernetes.DRADevice": {
            "driver": STRING,
            "attributes": map_of(STRING, map_of(STRING, attribute)),
            "capacity": _CAPACITY,
            "allowMultipleAllocations": BOOL,
        },
        _DURATION: time,
        _TIMESTAMP: time,
        _EMPTY: {},
        _ENTRY: {"key": STRING, "value": DYN},
        "google.protobuf.Any": {"type_url": STRING, "value": BYTES},
        "google.protobuf.ListValue": {"values": _JSON_LIST},
        "google.protobuf.Struct": {"fields": _JSON_OBJECT},
        "google.protobuf.Value": {
            "null_value": INT,
            "number_value": DOUBLE,
            "string_value": STRING,
            "bool_value": BOOL,
            "struct_value": _JSON_OBJECT,
            "list_value": _JSON_LIST,
        },
    }
    for name, type_ in _KNOWN_TO_THE_CHECKER_ONLY.items():
        if type_.name == NULLABLE:
            messages[name] = {"value": type_.parameters[0]}
    if minor >= 37:
        messages["list"] = messages["google.protobuf.ListValue"]
    return messages
