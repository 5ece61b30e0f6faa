"""Keys of maps and members of sets. To Python 1, 1u, 1.0 and true would be one key; to CEL they are four."""

from collections.abc import Callable
from typing import Any, Final

from gpusharing.cel.runtime.faults import unhashable
from gpusharing.cel.values.durations import Duration
from gpusharing.cel.values.named_formats import NamedFormat
from gpusharing.cel.values.network import Cidr, Ip
from gpusharing.cel.values.numbers import BoolKey, Uint
from gpusharing.cel.values.semver import Semver
from gpusharing.cel.values.timestamps import Timestamp
from gpusharing.cel.values.type_values import TypeValue


class UintKey(Uint):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is UintKey and int(self) == int(other)

    def __hash__(self) -> int:
        return hash((UintKey, int(self)))


class DoubleKey(float):
    """A new one for each look-up, so that NaN, unequal to itself, is never found."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is DoubleKey and float(self) == float(other)

    def __hash__(self) -> int:
        return hash((DoubleKey, float(self)))


class ValueKey:
    """A value that is the same key as an equal one."""

    __slots__ = ("_identity", "value")

    def __init__(self, value: Any, *identity: object) -> None:
        self.value = value
        self._identity = (type(value), *identity)

    def __eq__(self, other: object) -> bool:
        return type(other) is ValueKey and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)


class IdentityKey:
    """A value that is the same key only as itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is IdentityKey and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


_BOOL_KEYS: Final = {False: BoolKey.FALSE, True: BoolKey.TRUE}


def key_of(value: Any) -> Any:
    """What stands for the value in a dict."""
    kind = type(value)
    if kind is str or kind is int:
        return value
    encode = _ENCODERS.get(kind, IdentityKey)
    return encode(value)


def value_of(key: Any) -> Any:
    kind = type(key)
    if kind is str or kind is int:
        return key
    return _DECODERS[kind](key)


def _unhashable_bytes(_value: bytes) -> Any:
    raise unhashable("types.Bytes")


def _unhashable_semver(_value: Semver) -> Any:
    raise unhashable("cel.Semver")


def _unhashable_format(_value: NamedFormat) -> Any:
    raise unhashable("func(string) []string")


def _null(_value: None) -> None:
    return None


def _value(key: Any) -> Any:
    return key.value


_ENCODERS: Final[dict[type, Callable[[Any], Any]]] = {
    bool: _BOOL_KEYS.__getitem__,
    Uint: UintKey,
    float: DoubleKey,
    type(None): _null,
    Duration: lambda value: ValueKey(value, value.nanoseconds),
    Timestamp: lambda value: ValueKey(value, value.unix, value.nanoseconds, value.offset),
    Ip: lambda value: ValueKey(value, value.family, value.number),
    Cidr: lambda value: ValueKey(value, value.ip.family, value.ip.number, value.prefix_length),
    TypeValue: lambda value: ValueKey(value, value.name),
    bytes: _unhashable_bytes,
    Semver: _unhashable_semver,
    NamedFormat: _unhashable_format,
}

_DECODERS: Final[dict[type, Callable[[Any], Any]]] = {
    BoolKey: _value,
    UintKey: Uint,
    DoubleKey: float,
    type(None): _null,
    ValueKey: _value,
    IdentityKey: _value,
}
