"""IP addresses and ranges of them, as Kubernetes' CEL reads them: neither zones nor IPv4 inside IPv6."""

import re
from typing import Final

from gpusharing.cel.errors import EvaluationError
from gpusharing.cel.values.quoting import quote

_HEX_DIGITS: Final = re.compile(r"[0-9a-fA-F]*")
_PREFIX_LENGTH: Final = re.compile(r"[0-9]|[1-9][0-9]{1,2}")
_GROUPS: Final = 8


class Ip:
    """Immutable."""

    __slots__ = ("family", "number")

    def __init__(self, family: int, number: int) -> None:
        self.family = family
        self.number = number

    def __str__(self) -> str:
        """The canonical form."""
        if self.family == 4:
            return ".".join(str(byte) for byte in self.number.to_bytes(4, "big"))
        return _compressed([(self.number >> shift) & 0xFFFF for shift in range(112, -16, -16)])

    @property
    def bits(self) -> int:
        return 32 if self.family == 4 else 128

    def equals(self, other: "Ip") -> bool:
        return self.number == other.number and self.family == other.family

    def starts_with(self, length: int) -> int:
        """The first bits, as a number."""
        return self.number >> (self.bits - length)

    def is_unspecified(self) -> bool:
        return self.number == 0

    def is_loopback(self) -> bool:
        return self.starts_with(8) == 127 if self.family == 4 else self.number == 1

    def is_multicast(self) -> bool:
        return self.starts_with(4) == 0xE if self.family == 4 else self.starts_with(8) == 0xFF

    def is_link_local_multicast(self) -> bool:
        if self.family == 4:
            return self.starts_with(24) == 0xE00000
        return self.starts_with(16) & 0xFF0F == 0xFF02

    def is_link_local_unicast(self) -> bool:
        return self.starts_with(16) == 0xA9FE if self.family == 4 else self.starts_with(10) == 0x3FA

    def is_global_unicast(self) -> bool:
        is_broadcast = self.family == 4 and self.number == 0xFFFFFFFF
        return not (
            is_broadcast
            or self.is_unspecified()
            or self.is_loopback()
            or self.is_multicast()
            or self.is_link_local_unicast()
        )


class Cidr:
    """Immutable. The address keeps the bits behind the prefix, and ranges that differ in them are not equal."""

    __slots__ = ("ip", "prefix_length")

    def __init__(self, ip: Ip, prefix_length: int) -> None:
        self.ip = ip
        self.prefix_length = prefix_length

    def __str__(self) -> str:
        return f"{self.ip}/{self.prefix_length}"

    def equals(self, other: "Cidr") -> bool:
        return self.prefix_length == other.prefix_length and self.ip.equals(other.ip)

    def contains_ip(self, ip: Ip) -> bool:
        length = self.prefix_length
        return self.ip.family == ip.family and self.ip.starts_with(length) == ip.starts_with(length)

    def contains_cidr(self, other: "Cidr") -> bool:
        return self.prefix_length <= other.prefix_length and self.contains_ip(other.ip)

    def masked(self) -> "Cidr":
        shift = self.ip.bits - self.prefix_length
        return Cidr(Ip(self.ip.family, self.ip.number >> shift << shift), self.prefix_length)


def parse_ip(text: str) -> Ip:
    try:
        ip, zone = parse_address(text)
    except EvaluationError as error:
        prefix = f"IP Address {quote(text)} parse error during conversion from string"
        raise EvaluationError(f"{prefix}: {error.message}") from None
    if zone:
        raise EvaluationError(f"IP address {quote(text)} with zone value is not allowed")
    _refuse_mapped(ip, text)
    return ip


def is_ip(text: str) -> bool:
    try:
        parse_ip(text)
    except EvaluationError:
        return False
    return True


def is_canonical_ip(text: str) -> bool:
    return str(parse_ip(text)) == text


def parse_cidr(text: str) -> Cidr:
    try:
        cidr = _parse_prefix(text)
    except EvaluationError as error:
        prefix = f"network address parse error during conversion from string: netip.ParsePrefix({quote(text)})"
        raise EvaluationError(f"{prefix}: {error.message}") from None
    _refuse_mapped(cidr.ip, text)
    return cidr


def is_cidr(text: str) -> bool:
    try:
        parse_cidr(text)
    except EvaluationError:
        return False
    return True


def parse_address(text: str) -> tuple[Ip, str]:
    """Any address with its zone, as Go's netip.ParseAddr reads it, and with its errors."""
    try:
        return _read_address(text)
    except EvaluationError as error:
        raise EvaluationError(f"ParseAddr({quote(text)}): {error.message}") from None


def _read_address(text: str) -> tuple[Ip, str]:
    first = next((character for character in text if character in ".:%"), "")
    if first == ".":
        return Ip(4, _v4(text)), ""
    if first == ":":
        return _v6(text)
    raise EvaluationError("missing IPv6 address" if first else "unable to parse IP")


def _parse_prefix(text: str) -> Cidr:
    address, slash, length = text.rpartition("/")
    if not slash:
        raise EvaluationError("no '/'")
    ip, zone = parse_address(address)
    if zone:
        raise EvaluationError("IPv6 zones cannot be present in a prefix")
    if not _PREFIX_LENGTH.fullmatch(length):
        raise EvaluationError(f"bad bits after slash: {quote(length)}")
    if int(length) > ip.bits:
        raise EvaluationError("prefix length out of range")
    return Cidr(ip, int(length))


def _refuse_mapped(ip: Ip, text: str) -> None:
    if ip.family == 6 and ip.number >> 32 == 0xFFFF:
        raise EvaluationError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")


def _v4(text: str) -> int:
    number = octet = octets = 0
    digits = ""
    for at, character in enumerate(text):
        if character in "0123456789":
            if digits == "0":
                raise EvaluationError("IPv4 field has octet with leading zero")
            digits += character
            octet = int(digits)
            if octet > 255:
                raise EvaluationError("IPv4 field has value >255")
        elif character == ".":
            if not digits or at == len(text) - 1:
                raise _problem("IPv4 field must have at least one digit", text[at:])
            if octets == 3:
                raise EvaluationError("IPv4 address too long")
            number, octets, digits = number << 8 | octet, octets + 1, ""
        else:
            raise _problem("unexpected character", text[at:])
    if octets < 3:
        raise EvaluationError("IPv4 address too short")
    return number << 8 | octet


def _v6(text: str) -> tuple[Ip, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise EvaluationError("zone must be a non-empty string")
    groups: list[int] = []
    gap: int | None = None  # how many groups stand before the ::
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
    while rest and len(groups) < _GROUPS:
        digits = _group(rest)
        if rest[len(digits) :].startswith("."):
            groups += _embedded_v4(rest, groups, gap)
            rest = ""
            break
        groups.append(int(digits, 16))
        rest = rest[len(digits) :]
        if not rest:
            break
        rest = _after_colon(rest)
        if rest[0] == ":":
            if gap is not None:
                raise _problem("multiple :: in address", rest)
            gap, rest = len(groups), rest[1:]
    if rest:
        raise _problem("trailing garbage after address", rest)
    return Ip(6, _number(_filled(groups, gap))), zone


def _group(rest: str) -> str:
    match = _HEX_DIGITS.match(rest)
    digits = match[0] if match else ""
    if len(digits) > 4:
        raise _problem("each group must have 4 or less digits", rest)
    if not digits:
        raise _problem("each colon-separated field must have at least one digit", rest)
    return digits


def _after_colon(rest: str) -> str:
    if rest[0] != ":":
        raise _problem("unexpected character, want colon", rest)
    if len(rest) == 1:
        raise _problem("colon must be followed by more characters", rest)
    return rest[1:]


def _embedded_v4(rest: str, groups: list[int], gap: int | None) -> tuple[int, int]:
    if gap is None and len(groups) != _GROUPS - 2:
        raise _problem("embedded IPv4 address must replace the final 2 fields of the address", rest)
    if len(groups) > _GROUPS - 2:
        raise _problem("too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    number = _v4(rest)
    return number >> 16, number & 0xFFFF


def _filled(groups: list[int], gap: int | None) -> list[int]:
    missing = _GROUPS - len(groups)
    if gap is None:
        if missing:
            raise EvaluationError("address string too short")
        return groups
    if not missing:
        raise EvaluationError("the :: must expand to at least one field of zeros")
    return [*groups[:gap], *[0] * missing, *groups[gap:]]


def _number(groups: list[int]) -> int:
    number = 0
    for group in groups:
        number = number << 16 | group
    return number


def _compressed(groups: list[int]) -> str:
    """With :: for the first of the longest runs of zeros, unless there is only one."""
    start, length = 0, 1
    for at in range(_GROUPS):
        run = next((size for size in range(_GROUPS - at) if groups[at + size]), _GROUPS - at)
        if run > length:
            start, length = at, run
    if length < 2:
        return ":".join(f"{group:x}" for group in groups)
    before = ":".join(f"{group:x}" for group in groups[:start])
    after = ":".join(f"{group:x}" for group in groups[start + length :])
    return f"{before}::{after}"


def _problem(message: str, at: str) -> EvaluationError:
    return EvaluationError(f"{message} (at {quote(at)})")
