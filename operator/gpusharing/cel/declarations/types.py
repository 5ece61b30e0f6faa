"""Types as the checker knows them. Their names are what `type(x)` and Kubernetes' messages say."""

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    name: str
    parameters: tuple["Type", ...] = ()
    is_open: bool = field(init=False, repr=False, compare=False)
    """Whether something in it is to be found yet."""
    size: int = field(init=False, repr=False, compare=False)
    """Names in it, one of several occurrences each: with variables bound to one another it grows exponentially."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        is_open = self.name[0] == "@"
        size = 1
        for part in self.parameters:
            is_open = is_open or part.is_open
            size += part.size
        object.__setattr__(self, "is_open", is_open)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "_hash", hash((self.name, self.parameters)))

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parameters))})" if self.parameters else self.name


DYN: Final = Type("dyn")
ANY: Final = Type("any")  # attributes up to 1.35: neither fields nor macros on it, unlike dyn
ERROR: Final = Type("!error!")
BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null_type")
DURATION: Final = Type("google.protobuf.Duration")
TIMESTAMP: Final = Type("google.protobuf.Timestamp")
QUANTITY: Final = Type("kubernetes.Quantity")
SEMVER: Final = Type("kubernetes.Semver")
URL: Final = Type("kubernetes.URL")
IP: Final = Type("net.IP")
CIDR: Final = Type("net.CIDR")
NAMED_FORMAT: Final = Type("kubernetes.NamedFormat")
DEVICE: Final = Type("kubernetes.DRADevice")
NULLABLE: Final = "wrapper"
TYPE: Final = Type("type")  # of a type of which nothing more is known


def list_of(element: Type) -> Type:
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,))


def type_of(instance: Type) -> Type:
    return Type("type", (instance,))


def nullable(scalar: Type) -> Type:
    """A scalar or null: what a protobuf message such as google.protobuf.Int64Value stands for."""
    return Type(NULLABLE, (scalar,))


def parameter(name: str) -> Type:
    """A type to be found, such as the A in list(A)."""
    return Type(f"@{name}")
