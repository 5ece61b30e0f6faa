"""Types as values: what `type(x)` gives, and what messages call the type of a value."""

from dataclasses import dataclass
from typing import Any, Final

from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.named_formats import NamedFormat
from gpusharing.cel.values.network import Cidr, Ip
from gpusharing.cel.values.numbers import Uint
from gpusharing.cel.values.optional import Optional
from gpusharing.cel.values.quantity import Quantity
from gpusharing.cel.values.semver import Semver
from gpusharing.cel.values.timestamps import Timestamp
from gpusharing.cel.values.urls import Url


@dataclass(frozen=True, slots=True)
class TypeValue:
    name: str


_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Quantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Url: "kubernetes.URL",
    NamedFormat: "kubernetes.NamedFormat",
    Ip: "net.IP",
    Cidr: "net.CIDR",
    Optional: "optional_type",
    TypeValue: "type",
}
_TYPES: Final = {kind: TypeValue(name) for kind, name in _NAMES.items()}


def type_of(value: Any) -> TypeValue:
    found = _TYPES.get(type(value))
    if found is not None:
        return found
    # Lists and maps of our own making are subclasses of Python's.
    return next(_TYPES[kind] for kind in type(value).__mro__ if kind in _TYPES)
